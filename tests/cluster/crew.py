"""Threads that ask one thing after another while they are let, and what they found wrong."""

import threading
import time

import network
from ledger import Ledger, verify

# After something that must not be.
PAUSE_SECONDS = 0.2
MOST_COMPLAINTS = 20


class Crew:
    def __init__(self):
        self.ledger = Ledger()
        self.runs = threading.Event()
        self.lock = threading.Lock()
        self.busy = 0
        self.wrong = []

    def start(self, step, *arguments):
        """A thread that repeats a step, which returns for how many seconds to rest after it."""
        threading.Thread(target=self._live, args=(step, arguments), daemon=True).start()

    def _live(self, step, arguments):
        while True:
            self.runs.wait()
            with self.lock:
                self.busy += 1
            pause = PAUSE_SECONDS
            try:
                if self.runs.is_set():
                    pause = step(*arguments)
            except Exception as error:  # An answer that must not be, or a mistake of these scripts: both end in the report.
                self.complain(f"{type(error).__name__} {error}")
            finally:
                with self.lock:
                    self.busy -= 1
            time.sleep(pause)

    def complain(self, what):
        with self.lock:
            if len(self.wrong) < MOST_COMPLAINTS:
                self.wrong.append(what)

    def go(self):
        self.runs.set()
        return {}

    def rest(self):
        """Ends when no request is under way."""
        self.runs.clear()
        while self.busy:
            time.sleep(0.02)
        return {}

    def read_back(self, everything, find):
        """Reads what was touched, or all, at every node by `find(node, key)`: the keys, and all that is wrong by now."""
        keys = self.ledger.take_touched()
        if everything:
            keys = sorted(self.ledger.keys)
        wrong = verify(self.ledger, keys, network.NODES, find)
        with self.lock:
            wrong, self.wrong = self.wrong + wrong, []
        return keys, wrong[:MOST_COMPLAINTS]
