"""What goes wrong with disks: file systems that fill, devices whose bytes change."""

import mmap
import os
import random
import subprocess

from network import sh

BLOCK_BYTES = 4096
# Superblocks and notes stand before the zones (crates/format/src/superblock.rs). Destroyed, the device is refused: a case of its own.
FIRST_REGION_BYTE = 8 << 20


class SmallFolder:
    """A folder that is a file system of its own."""

    def __init__(self, image, folder, size):
        self.image, self.folder = image, folder
        folder.mkdir(parents=True)
        sh("truncate", "--size", size, image)
        sh("mkfs.ext4", "-q", "-F", "-m", "0", image)
        sh("mount", "-o", "loop", image, folder)

    @property
    def filler(self):
        return self.folder / "filler"

    def fill(self):
        """Takes all the space that is left."""
        with open(self.filler, "wb", buffering=0) as file:
            piece = b"\xa5" * (1 << 20)
            while piece:
                try:
                    file.write(piece)
                except OSError:
                    piece = piece[: len(piece) // 2]

    def free(self):
        self.filler.unlink(missing_ok=True)

    def remove(self):
        subprocess.run(["umount", self.folder], check=False)
        self.image.unlink(missing_ok=True)


def extents(path):
    """Where a sparse file has bytes: (from, to)."""
    with open(path, "rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                begins = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            at = os.lseek(file.fileno(), begins, os.SEEK_HOLE)
            yield begins, at


def corrupt(path, blocks, seed):
    """Overwrites random blocks that hold something with random bytes; how many. Around the page cache, as the server does: where both ways
    meet, the kernel reports an error to both."""
    chance = random.Random(seed)
    places = [at for begins, ends in extents(path) for at in range(max(begins, FIRST_REGION_BYTE), ends, BLOCK_BYTES)]
    chance.shuffle(places)
    damaged = 0
    block = mmap.mmap(-1, BLOCK_BYTES)  # Aligned, which O_DIRECT asks for.
    file = os.open(path, os.O_RDWR | os.O_DIRECT)
    for at in places:
        if damaged == blocks:
            break
        # Zones are written with zeros ahead of what they hold.
        if os.preadv(file, [block], at) == BLOCK_BYTES and any(block[:]):
            block[:] = chance.randbytes(BLOCK_BYTES)
            os.pwritev(file, [block], at)
            damaged += 1
    os.close(file)
    return damaged


def destroy_head(path):
    """Overwrites the superblock and its copies."""
    with open(path, "r+b", buffering=0) as file:
        file.write(b"\x5a" * FIRST_REGION_BYTE)
        os.fsync(file.fileno())
