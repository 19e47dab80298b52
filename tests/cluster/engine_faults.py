"""The same faults on buckets of the volume engine, and on buckets of both engines that share the disks."""

import dataclasses

import disk_faults
import faults
import judge
from hosts import Topology

# The volume engine alone.
VOLUME = Topology(buckets=(("linear", "volume"), ("probe", "volume"), ("objects", "volume")))
# Both; the probe times the log engine.
MIXED = Topology(buckets=(("linear", "volume"), ("probe", "log"), ("objects", "log"), ("objects-volume", "volume")))
# A placement group stands still until it is opened under another view: some 5 s on an idle machine, longer with many names.
OUTAGE_SECONDS, BACK_SECONDS = 30.0, 60.0
# Of which a node does not come back by itself yet: where the log of placement groups rots it takes part in none any more, and where the journal
# of files does it does not start (docs/progress.md).
NOT_YET = "bytes change"


def generous(bars):
    return judge.Bars(serving=bars.serving, outage=OUTAGE_SECONDS, back=BACK_SECONDS)


def all_of_engines():
    every = [*faults.all_of_processes_and_links(), *disk_faults.all_of_disks()]
    for word, topology in (("volume", VOLUME), ("mixed", MIXED)):
        for fault in every:
            if fault.topology == Topology() and NOT_YET not in fault.name:
                yield dataclasses.replace(fault, name=f"{word}: {fault.name}", bars=generous(fault.bars), topology=topology)
