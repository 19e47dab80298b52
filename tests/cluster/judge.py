"""Bars: how long a fault may keep clients waiting."""

import dataclasses

# docs/operations/cluster.md: writes wait as long as a serve lease for a member that is silent. It was granted up to a heartbeat before.
LEASE_SECONDS = 2.0
# What the wait for a lease may take: a heartbeat less, or an election, a view and a recovery more.
LEASE_OUTAGE = (LEASE_SECONDS - 0.6, LEASE_SECONDS + 1.0)
LEASE_OUTAGE_OF_MANAGER = (LEASE_SECONDS - 0.6, LEASE_SECONDS + 3.0)


@dataclasses.dataclass(frozen=True)
class Bars:
    """What holds from a fault until all nodes serve again."""

    # So many nodes acknowledge writes and answer reads again within `outage` seconds, while the fault lasts.
    serving: int = 2
    outage: float = 5.0
    # Once its cause is gone, everybody serves within so many seconds.
    back: float = 5.0
    # The time without any acknowledged write is the wait for a lease: from, to.
    lease: tuple = ()


ONE_FAILURE = Bars()
# It may be taken for gone at once, or just waited for.
SOME_DELAY = Bars(serving=2, outage=5.0, back=5.0)
A_HOST = Bars(outage=10.0, back=10.0)
# No majority: nobody serves while it lasts.
AN_OUTAGE = Bars(serving=0, back=10.0)


@dataclasses.dataclass
class Verdict:
    """How a fault went."""

    name: str
    bars: Bars
    # Seconds, from the fault until all nodes served again.
    no_write: float = 0
    no_write_serving: float = 0
    no_read_serving: float = 0
    longest_wait: float = 0
    back: float = 0
    refused: int = 0
    full: int = 0
    checked: dict = dataclasses.field(default_factory=dict)
    notes: list = dataclasses.field(default_factory=list)
    wrong: list = dataclasses.field(default_factory=list)

    def take_in(self, tally, back):
        """Measures, from the probe's tally of the whole time and the time until all nodes served."""
        writes, reads = tally["write"], tally["read"]
        best = sorted(range(len(writes["nodes"])), key=lambda node: writes["nodes"][node])[: self.bars.serving or None]
        self.no_write = writes["any"]
        self.no_write_serving = max(writes["nodes"][node] for node in best)
        self.no_read_serving = max(reads["nodes"][node] for node in best)
        self.longest_wait = max(writes["waits"][node] for node in best)
        self.refused = writes["refused"] + reads["refused"]
        self.full = writes["full"]
        self.back = back

    def judge(self):
        bars = self.bars
        if bars.serving:
            for what, seconds in (("written", self.no_write_serving), ("read", self.no_read_serving)):
                if seconds > bars.outage:
                    self.wrong.append(f"nothing {what} for {seconds:.1f} s at one of {bars.serving} nodes; the bar is {bars.outage} s")
        if self.back > bars.back:
            self.wrong.append(f"not all nodes served for {self.back:.1f} s after it had ended; the bar is {bars.back} s")
        if bars.lease and not bars.lease[0] <= self.no_write <= bars.lease[1]:
            low, high = bars.lease
            self.wrong.append(f"no write for {self.no_write:.1f} s; the wait for a lease takes {low} to {high} s")
