"""The judges of tests/cluster that look at files: histories that have an explanation, and such as have none. No server takes part."""

import hashlib
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "cluster"))

import file_contents  # noqa: E402
import file_names  # noqa: E402

# Two directories that are always there, and inodes in them.
ONE, OTHER = 1, 2
FILE, SECOND, MADE = 10, 11, 12


def call(do, begins, ends, at, outcome="ok", **more):
    return {"do": do, "begins": begins, "ends": ends, "at": at, "is": outcome} | more


def unanswered(do, begins, at, **more):
    return {"do": do, "begins": begins, "ends": None, "at": at} | more


def stat(begins, at, ino=None, is_directory=False):
    outcome = "ok" if ino else "ENOENT"
    return call("stat", begins, begins + 0.5, at, outcome, ino=ino, is_directory=is_directory)


def listed(begins, directory, **names):
    return call("list", begins, begins + 0.5, (directory, ""), listed={name: (ino, False) for name, ino in names.items()})


CREATED = call("create", 1, 2, (ONE, "a"), ino=FILE)
MOVED = call("rename", 3, 8, (ONE, "a"), to=(OTHER, "b"))
HERE, THERE = (ONE, "a"), (OTHER, "b")
TWO = [CREATED, call("create", 1, 2, (ONE, "b"), ino=SECOND)]
OVER = call("rename", 3, 8, (ONE, "a"), to=(ONE, "b"))
IN_ONE = call("rename", 3, 8, (ONE, "a"), to=(ONE, "c"))
A_DIRECTORY = [call("mkdir", 1, 2, (ONE, "d")), stat(2.1, (ONE, "d"), MADE, True), call("create", 3, 4, (MADE, "in"), ino=FILE)]

NAMES = {
    "a rename while others look": (True, [CREATED, MOVED, stat(4, HERE, FILE), stat(5, HERE), stat(6, THERE, FILE)]),
    "a rename that takes its name back": (False, [CREATED, MOVED, stat(4, HERE), stat(5, HERE, FILE)]),
    "a rename that is at neither name": (False, [CREATED, MOVED, stat(4, HERE), stat(5, THERE), stat(6, HERE, FILE)]),
    "a rename that is at both names": (False, [CREATED, MOVED, stat(4, THERE, FILE), stat(5, HERE, FILE)]),
    "a rename that left none": (False, [CREATED, MOVED, stat(9, HERE), stat(10, THERE)]),
    "a listing that shows the moved file twice": (False, [CREATED, IN_ONE, listed(4, ONE, a=FILE, c=FILE)]),
    "a listing that shows the moved file nowhere": (False, [CREATED, IN_ONE, listed(4, ONE)]),
    "a rename over a file": (True, [*TWO, OVER, listed(4, ONE, a=FILE, b=SECOND), listed(5, ONE, b=FILE)]),
    "a rename over a file that takes that away first": (False, [*TWO, OVER, listed(4, ONE, a=FILE)]),
    "a file that two have made": (False, [CREATED, call("create", 1, 3, HERE, ino=SECOND)]),
    "a file that one of two has made": (True, [CREATED, call("create", 1, 3, HERE, "EEXIST")]),
    "a removal that is acknowledged and does nothing": (False, [CREATED, call("unlink", 3, 4, HERE), stat(5, HERE, FILE)]),
    "a removal that happens twice": (False, [CREATED, call("unlink", 3, 4, HERE), call("unlink", 5, 6, HERE)]),
    "a removal that was not answered, and happened late": (True, [CREATED, unanswered("unlink", 3, HERE), stat(5, HERE, FILE), stat(9, HERE)]),
    "a removal that was not answered, and happened for a while": (
        False,
        [CREATED, unanswered("unlink", 3, HERE), stat(5, HERE), stat(9, HERE, FILE)],
    ),
    "a file that was not answered": (True, [unanswered("create", 1, HERE), stat(5, HERE, FILE), stat(6, HERE, FILE)]),
    "a file that was not answered, and becomes another one": (False, [unanswered("create", 1, HERE), stat(5, HERE, FILE), stat(6, HERE, SECOND)]),
    "a directory with something in it": (True, [*A_DIRECTORY, call("rmdir", 5, 6, (ONE, "d"), "ENOTEMPTY")]),
    "a directory that is removed with something in it": (False, [*A_DIRECTORY, call("rmdir", 5, 6, (ONE, "d"))]),
    "a directory that moves with what it has": (
        True,
        [*A_DIRECTORY, call("rename", 5, 6, (ONE, "d"), to=(OTHER, "e")), stat(7, (OTHER, "e"), MADE, True), listed(8, MADE, **{"in": FILE})],
    ),
    "a link": (True, [CREATED, call("link", 3, 4, THERE, ino=FILE), call("unlink", 5, 6, HERE), stat(7, THERE, FILE)]),
    "a link that takes the first name away": (False, [CREATED, call("link", 3, 4, THERE, ino=FILE), stat(5, HERE)]),
}


@pytest.mark.parametrize("what", NAMES)
def test_names(what):
    is_explained, history = NAMES[what]
    wrong = file_names.judge([ONE, OTHER], [dict(one) for one in history])
    assert (wrong is None) == is_explained, wrong


def written(version, begins, ends, outcome="ok"):
    return {"key": "k", "version": version, "begins": begins, "ends": ends} | ({"is": outcome} if outcome else {})


def read(version, begins, ends):
    return {"version": version, "begins": begins, "ends": ends}


WRITES = [written(1, 1, 2), written(2, 3, 6), written(3, 7, 8, None), written(4, 9, 10)]
READS = {
    "what was acknowledged, or is under way": (True, [read(0, 0.5, 1.5), read(1, 2.5, 2.7), read(1, 4, 5), read(2, 4, 5), read(4, 11, 12)]),
    "what was not answered": (True, [read(2, 7.5, 7.6), read(3, 8.5, 8.6), read(3, 9.1, 9.2)]),
    "nothing, after a write": (False, [read(0, 2.5, 3)]),
    "an older version than the acknowledged one": (False, [read(1, 6.5, 7)]),
    "what was not answered, after a later write": (False, [read(3, 11, 12)]),
    "an older version than one that was read": (False, [read(2, 4, 4.5), read(1, 5, 5.5)]),
    "a version before it was written": (False, [read(2, 1, 2.5)]),
}


@pytest.mark.parametrize("what", READS)
def test_registers(what):
    is_right, reads = READS[what]
    register = file_contents.Register()
    for write in WRITES:
        register.take(write)
    wrong = register.judge("k", reads)
    assert (not wrong) == is_right, wrong


RECORDS = [file_contents.record_of(writer, number, 200) for writer, number in ((0, 1), (1, 1), (0, 2))]
WHOLE = b"".join(RECORDS)


def appended(writer, number, begins, ends, outcome="ok"):
    return {"writer": writer, "number": number, "begins": begins, "ends": ends, "is": outcome}


APPENDS = [appended(0, 1, 1, 2), appended(1, 1, 3, 4, None), appended(0, 2, 5, 6)]
LOGS = {
    "all of them": (True, WHOLE),
    "all that were answered": (True, RECORDS[0] + RECORDS[2]),
    "one less": (False, RECORDS[0] + RECORDS[1]),
    "one twice": (False, WHOLE + RECORDS[2]),
    "one that was never appended": (False, WHOLE + file_contents.record_of(1, 2, 200)),
    "an earlier one behind a later one": (False, RECORDS[2] + RECORDS[1] + RECORDS[0]),
    "a part of one": (False, WHOLE[:-1]),
    "zeros in between": (False, RECORDS[0] + bytes(200) + RECORDS[2]),
}


@pytest.mark.parametrize("what", LOGS)
def test_logs(what):
    is_right, found = LOGS[what]
    wrong = file_contents.judge_log(found, APPENDS, [])
    assert (not wrong) == is_right, wrong


@pytest.mark.parametrize("is_right, begins, found", [(True, 2.5, RECORDS[0]), (False, 6.5, RECORDS[0]), (False, 2.5, RECORDS[1])])
def test_reads_of_logs(is_right, begins, found):
    reading = {"begins": begins, "ends": begins + 1, "length": len(found), "sha1": hashlib.sha1(found).hexdigest()}
    assert (not file_contents.judge_log(WHOLE, APPENDS, [reading])) == is_right
