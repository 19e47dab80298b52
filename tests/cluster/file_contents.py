"""What contents of files may be found, by what their writers were told.

A register has one writer, which numbers its versions: a piece of a file, or a document that is replaced by renaming. Its reads must be
linearizable. A log is a file to which everybody appends: each record is there as a whole, once, or at most once where its writer was not answered.
"""

import bisect
import hashlib

from ledger import ABSENT, content, version_of

# Bytes of a piece, and how many a file has. Of a file of halves each block has two writers.
PIECES = {"blocks": (4096, 48), "halves": (2048, 24)}


def record_of(writer, number, length):
    return content(f"log/{writer}", number, length)


def records_of(bytes_of_log):
    """All records of a log, in their order: (writer, number, where it ends)."""
    records, at = [], 0
    while at < len(bytes_of_log):
        words = bytes_of_log[at : at + 100].split(b"\n", 1)[0].decode(errors="replace").split(" ")
        if len(words) != 3 or not words[1].isdigit() or not words[2].isdigit() or not words[0].startswith("log/"):
            raise ValueError(f"a log of {len(bytes_of_log)} bytes has no record at {at}: {bytes_of_log[at : at + 60]!r}")
        ends = at + int(words[2])
        version_of(words[0], bytes_of_log[at:ends])
        records.append((int(words[0].removeprefix("log/")), int(words[1]), ends))
        at = ends
    return records


class Register:
    """All writes of a register so far: lists by version, of which the first is that nothing is there."""

    def __init__(self):
        self.begins, self.ends = [0.0], [0.0]
        # What was there when no client wrote.
        self.floor = ABSENT

    def take(self, write):
        if write["version"] != len(self.begins):
            raise ValueError(f"version {write['version']} of {write['key']} comes after {len(self.begins) - 1}")
        self.begins.append(write["begins"])
        self.ends.append(write["ends"] if write.get("is") == "ok" else float("inf"))

    def judge(self, key, reads):
        """What is wrong with reads, if something is."""
        wrong, by_end, seen = [], sorted(reads, key=lambda read: read["ends"]), ABSENT
        acknowledged = sorted((ends, version) for version, ends in enumerate(self.ends) if ends != float("inf"))
        after, floor_of_writes = 0, self.floor
        ended = 0
        for read in sorted(reads, key=lambda read: read["begins"]):
            while after < len(acknowledged) and acknowledged[after][0] < read["begins"]:
                floor_of_writes = max(floor_of_writes, acknowledged[after][1])
                after += 1
            while by_end[ended]["ends"] < read["begins"]:
                seen = max(seen, by_end[ended]["version"])
                ended += 1
            version = read["version"]
            if version < floor_of_writes:
                wrong.append(f"{key}: {read} found an old version, {floor_of_writes} was acknowledged before")
            elif version < seen:
                wrong.append(f"{key}: {read} found an old version, {seen} was read before")
            elif version >= len(self.begins) or self.begins[version] > read["ends"]:
                wrong.append(f"{key}: {read} found a version that no client had written")
        return wrong


def judge_log(found, appends, reads):
    """What is wrong with a log that has these bytes in the end."""
    try:
        records = records_of(found)
    except ValueError as error:
        return [str(error)]
    wrong, places = [], {}
    for place, (writer, number, _) in enumerate(records):
        if (writer, number) in places:
            wrong.append(f"log: record {number} of {writer} is there twice")
        places[writer, number] = place
    by_name = {(append["writer"], append["number"]): append for append in appends}
    wrong += [f"log: no client appended {name}" for name in places if name not in by_name]
    wrong += [f"log: acknowledged and lost: {one}" for name, one in by_name.items() if one.get("is") == "ok" and name not in places]
    newest = 0.0
    for writer, number, _ in records:
        one = by_name.get((writer, number))
        if one and one.get("is") == "ok" and one["ends"] < newest:
            wrong.append(f"log: {one} stands behind a record whose append began later")
        newest = max(newest, one["begins"] if one else 0.0)
    return wrong + judge_reads_of_log(found, records, [by_name[name] | {"place": places[name]} for name in by_name if name in places], reads)


def judge_reads_of_log(found, records, appends, reads):
    """Each read has a beginning of the log, with all that was acknowledged before it."""
    wrong = []
    acknowledged = sorted((one["ends"], records[one["place"]][2]) for one in appends if one.get("is") == "ok")
    ends, furthest = [], []
    for moment, end in acknowledged:
        ends.append(moment)
        furthest.append(max(end, furthest[-1] if furthest else 0))
    for read in reads:
        before = bisect.bisect_left(ends, read["begins"])
        least = furthest[before - 1] if before else 0
        if read["length"] < least:
            wrong.append(f"log: {read} lacks what was acknowledged before: {least} bytes")
        if hashlib.sha1(found[: read["length"]]).hexdigest() != read["sha1"]:
            wrong.append(f"log: {read} is no beginning of the log that there is in the end, of {len(found)} bytes")
    return wrong
