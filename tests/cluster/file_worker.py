"""A client of a mount: python3 file_worker.py MOUNT NUMBER WRITERS names|contents

Does one thing after the other on the mount, and notes when each began and ended, and how. A worker for names works in a few directories that all
share; one for contents writes pieces of files, replaces documents, appends to a log, and reads what all have written. `take` hands over what
was noted since the last time.
"""

import ctypes
import errno
import hashlib
import mmap
import os
import pathlib
import random
import struct
import sys
import time

import talk
from crew import PAUSE_SECONDS, Crew
from file_contents import PIECES, record_of, records_of
from ledger import ABSENT, content, version_of

PACE_SECONDS = 0.015
NAMES = ("a", "b", "c")
# Made directories that a client has open, beside those that are always there.
MOST_OPEN = 2
NAME_STEPS = (("create", 24), ("mkdir", 9), ("rename", 26), ("link", 8), ("unlink", 10), ("rmdir", 6), ("stat", 12), ("list", 12), ("enter", 8))
CONTENT_STEPS = (("write", 40), ("replace", 8), ("append", 20), ("read", 24), ("read_document", 5), ("read_log", 3))
DOCUMENTS = 2
MOST_DOCUMENT_BYTES = 30_000
MOST_RECORD_BYTES = 3_000
LISTING_BYTES = 1 << 16
ROOT = "the mount"
LIBC = ctypes.CDLL(None, use_errno=True)


def listing(directory):
    """Names, inodes and whether they are directories, by one call: what several calls return need not have been at one moment."""
    buffer = ctypes.create_string_buffer(LISTING_BYTES)
    os.lseek(directory, 0, os.SEEK_SET)
    length = LIBC.getdents64(directory, buffer, LISTING_BYTES)
    if length < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    at, entries = 0, {}
    while at < length:
        ino, _, size, kind = struct.unpack_from("<QqHB", buffer, at)
        name = buffer.raw[at + 19 : at + size].split(b"\0", 1)[0].decode()
        if name not in (".", ".."):
            entries[name] = (ino, kind == 4)
        at += size
    return entries


class Worker(Crew):
    def __init__(self, mount, number, steps):
        super().__init__()
        self.mount, self.number = pathlib.Path(mount), number
        self.chance = random.Random(number)
        self.history, self.now = [], None
        self.open = {}
        self.names, self.weights = zip(*steps)
        self.round = 0
        self.start(self.next_step)

    def next_step(self):
        step = self.chance.choices(self.names, self.weights)[0]
        try:
            getattr(self, step)()
        except OSError:
            self.let_go()
            return PAUSE_SECONDS
        return PACE_SECONDS

    def note(self, what, work):
        """Carries something out, and notes it. What fails with an error that says what is there, has happened at one moment."""
        what |= {"begins": time.monotonic(), "ends": None}
        with self.lock:
            self.history.append(what)
            self.now = what
        try:
            result = work()
            what["is"] = "ok"
            return result
        except OSError as error:
            name = errno.errorcode.get(error.errno, str(error.errno))
            what["failed" if name not in self.telling else "is"] = name
            if name not in self.telling:
                raise
        finally:
            what["ends"] = time.monotonic()
            self.now = None
        return None

    def root(self):
        """The mount, by a descriptor: the folder below it, while it is not there, is somebody else's."""
        if ROOT not in self.open:
            if not os.path.ismount(self.mount):
                raise OSError(errno.ENOTCONN, "not mounted")
            self.open[ROOT] = os.open(self.mount, os.O_RDONLY | os.O_DIRECTORY)
        return self.open[ROOT]

    def let_go(self):
        """All is opened anew: the mount may be another one."""
        opened, self.open = self.open, {}
        for descriptor in opened.values():
            try:
                os.close(descriptor)
            except OSError:
                pass

    def begin(self, round):
        self.round = round
        self.let_go()
        return self.go()

    def tire(self):
        """No more is begun; what is under way."""
        self.runs.clear()
        now = self.now
        return {"busy": self.busy, "now": now and {key: now[key] for key in now if key != "listed"}}

    def take(self):
        with self.lock:
            history, self.history = self.history, []
            wrong, self.wrong = self.wrong, []
        return {"history": history, "wrong": wrong}


class Names(Worker):
    telling = {"ENOENT", "EEXIST", "ENOTDIR", "EISDIR", "ENOTEMPTY", "EINVAL", "ESTALE", "ELOOP", "EBUSY"}

    def __init__(self, mount, number, _):
        super().__init__(mount, number, NAME_STEPS)

    def directories(self, arena):
        """Inode numbers of an arena's directories that are open here: first those that are always there."""
        return [place[1] for place in self.open if place[0] == arena]

    def place(self):
        """An arena, and a name in one of its directories: the arena, the directory's number and descriptor, the name."""
        arena = self.chance.choice(ARENAS)
        if not self.directories(arena):
            for name in BASES:
                opened = os.open(f"names-{self.round}-{arena}/{name}", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.root())
                self.open[arena, os.fstat(opened).st_ino] = opened
        return (arena, *self.name_in(arena))

    def name_in(self, arena):
        ino = self.chance.choice(self.directories(arena))
        return ino, self.open[arena, ino], self.chance.choice(NAMES)

    def on_name(self, do, work):
        arena, ino, directory, name = self.place()
        what = {"do": do, "arena": arena, "at": (ino, name)}
        self.note(what, lambda: work(what, directory, name))
        return what

    def create(self):
        made = []
        what = self.on_name(
            "create", lambda _, directory, name: made.append(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, dir_fd=directory))
        )
        for descriptor in made:
            try:
                what["ino"] = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)

    def mkdir(self):
        self.on_name("mkdir", lambda _, directory, name: os.mkdir(name, dir_fd=directory))

    def unlink(self):
        self.on_name("unlink", lambda _, directory, name: os.unlink(name, dir_fd=directory))

    def rmdir(self):
        self.on_name("rmdir", lambda _, directory, name: os.rmdir(name, dir_fd=directory))

    def rename(self):
        arena, ino, directory, name = self.place()
        to_ino, to, to_name = self.name_in(arena)
        what = {"do": "rename", "arena": arena, "at": (ino, name), "to": (to_ino, to_name)}
        self.note(what, lambda: os.rename(name, to_name, src_dir_fd=directory, dst_dir_fd=to))

    def stat(self):
        def work(what, directory, name):
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            what |= {"ino": found.st_ino, "is_directory": os.path.stat.S_ISDIR(found.st_mode)}

        self.on_name("stat", work)

    def list(self):
        def work(what, directory, _):
            what["listed"] = listing(directory)

        self.on_name("list", work)

    def opened(self, flags):
        """Opens a name, which is noted as the question for it: the arena, the inode and the descriptor."""
        kept = []

        def work(what, directory, name):
            opened = os.open(name, flags | os.O_NOFOLLOW, dir_fd=directory)
            kept.append(opened)
            found = os.fstat(opened)
            what |= {"ino": found.st_ino, "is_directory": os.path.stat.S_ISDIR(found.st_mode)}

        what = self.on_name("stat", work)
        if what["is"] == "ok":
            return what["arena"], what["ino"], kept[0]
        for descriptor in kept:
            os.close(descriptor)
        # It may have been there when it was looked up, and removed before it was opened: that is no answer of one moment.
        what["is"] = "ESTALE"
        return None

    def link(self):
        """By the inode that was found: what has the name then is another question."""
        found = self.opened(os.O_PATH)
        if found is None:
            return
        arena, ino, descriptor = found
        try:
            if not os.path.stat.S_ISDIR(os.fstat(descriptor).st_mode):
                to_ino, to, name = self.name_in(arena)
                what = {"do": "link", "arena": arena, "at": (to_ino, name), "ino": ino}
                self.note(what, lambda: os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=to, follow_symlinks=True))
        finally:
            os.close(descriptor)

    def enter(self):
        """Opens a directory that somebody made, to work in it."""
        found = self.opened(os.O_RDONLY | os.O_DIRECTORY)
        if found is None:
            return
        arena, ino, descriptor = found
        made = self.directories(arena)[len(BASES) :]
        if (arena, ino) in self.open:
            os.close(descriptor)
            return
        if len(made) >= MOST_OPEN:
            os.close(self.open.pop((arena, made[0])))
        self.open[arena, ino] = descriptor


class Contents(Worker):
    telling = set()

    def __init__(self, mount, number, writers):
        self.writers = writers
        self.versions = {}
        self.buffer = mmap.mmap(-1, max(size for size, _ in PIECES.values()))
        super().__init__(mount, number, CONTENT_STEPS)

    def descriptor(self, name, flags):
        if (name, flags) not in self.open:
            self.open[name, flags] = self.opened(name, flags)
        return self.open[name, flags]

    def opened(self, name, flags):
        return os.open(name, flags, dir_fd=self.root())

    def whole(self, name):
        with open(self.opened(name, os.O_RDONLY), "rb") as file:
            return file.read()

    def next_version(self, key):
        self.versions[key] = self.versions.get(key, 0) + 1
        return self.versions[key]

    def piece(self, is_own):
        """A file, the offset and length of a piece of it, and the piece's key."""
        name = self.chance.choice(list(PIECES))
        size, count = PIECES[name]
        number = self.chance.randrange(count)
        if is_own:
            number -= number % self.writers - self.number
        return name, number * size, size, f"{name}/{number}"

    def write(self):
        name, offset, size, key = self.piece(is_own=True)
        file = self.descriptor(name, os.O_WRONLY)
        version = self.next_version(key)

        def work():
            if os.pwrite(file, content(key, version, size), offset) != size:
                raise OSError(errno.EIO, "a part was written")
            os.fdatasync(file)

        self.note({"do": "write", "key": key, "version": version}, work)

    def replace(self):
        """A document gets another content as programs do it: a new file, which is then renamed."""
        key = f"document-{self.number}-{self.chance.randrange(DOCUMENTS)}"
        version = self.next_version(key)
        draft = f"draft-{self.number}"

        def work():
            with open(self.opened(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                file.write(content(key, version, self.chance.randrange(100, MOST_DOCUMENT_BYTES)))
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, key, src_dir_fd=self.root(), dst_dir_fd=self.root())

        self.note({"do": "write", "key": key, "version": version}, work)

    def append(self):
        log = self.descriptor(f"log-{self.round}", os.O_WRONLY | os.O_APPEND)
        number = self.next_version("log")
        record = record_of(self.number, number, self.chance.randrange(100, MOST_RECORD_BYTES))

        def work():
            if os.write(log, record) != len(record):
                raise OSError(errno.EIO, "a part was appended")
            os.fdatasync(log)

        self.note({"do": "append", "writer": self.number, "number": number}, work)

    def read(self):
        name, offset, size, key = self.piece(is_own=False)
        # Around the kernel's cache, or by an open that drops what is old in it.
        is_direct = self.chance.random() < 0.5
        file = self.descriptor(name, os.O_RDONLY | os.O_DIRECT) if is_direct else None
        what = {"do": "read", "key": key, "is_direct": is_direct}

        def work():
            if is_direct:
                length = os.preadv(file, [memoryview(self.buffer)[:size]], offset)
                return self.buffer[:length]
            fresh = self.opened(name, os.O_RDONLY)
            try:
                return os.pread(fresh, size, offset)
            finally:
                os.close(fresh)

        self.judged(what, key, self.note(what, work))

    def judged(self, what, key, found):
        """Adds the version that was found; a register that was never written is absent, or all zeros."""
        try:
            what["version"] = ABSENT if found is None or not any(found) else version_of(key, found)
        except ValueError as error:
            self.complain(f"{what}: {error}")

    def read_document(self):
        key = f"document-{self.chance.randrange(self.writers)}-{self.chance.randrange(DOCUMENTS)}"
        what = {"do": "read", "key": key}

        def work():
            try:
                return self.whole(key)
            except FileNotFoundError:
                return None

        self.judged(what, key, self.note(what, work))

    def read_log(self):
        what = {"do": "read_log"}
        found = self.note(what, lambda: self.whole(f"log-{self.round}"))
        what |= {"length": len(found), "sha1": hashlib.sha1(found).hexdigest()}
        try:
            records_of(found)
        except ValueError as error:
            self.complain(f"{what}: {error}")


ARENAS = (0, 1)
BASES = ("p", "q")


def main():
    mount, number, writers, kind = sys.argv[1:]
    worker = {"names": Names, "contents": Contents}[kind](mount, int(number), int(writers))
    talk.answer({"go": worker.begin, "rest": worker.tire, "take": worker.take})


if __name__ == "__main__":
    sys.exit(main())
