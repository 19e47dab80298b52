"""A wire that does badly: python3 wire.py ONE OTHER [--delay-ms D] [--jitter-ms J] [--loss P] [--repeat P] [--seed N]

Carries frames between two interfaces of this namespace. Each is delayed by D to D + J milliseconds, which reorders them; P of a hundred
are lost, or carried twice. What `tc netem` does, for kernels that are built without it; frames keep their offloads (PACKET_VNET_HDR),
so that what is lost may be several segments.
"""

import argparse
import heapq
import random
import select
import socket
import time

ETH_P_ALL = 3
PACKET_VNET_HDR = 15
PACKET_IGNORE_OUTGOING = 23
SOL_PACKET = 263
# A virtio header, an Ethernet header, and the largest frame that an offload may leave.
MOST_BYTES = 10 + 14 + (1 << 16)
# What is on the wire at once, at most: more is lost, as in a switch.
MOST_FRAMES = 20_000


def port(name):
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    port.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.bind((name, ETH_P_ALL))
    port.setblocking(False)
    return port


class Wire:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        self.under_way = []
        self.number = 0

    def take(self, frame, to):
        times = 0 if self.random.random() * 100 < self.options.loss else 1
        if times and self.random.random() * 100 < self.options.repeat:
            times = 2
        for _ in range(times):
            delay_ms = self.options.delay_ms + self.random.random() * self.options.jitter_ms
            if len(self.under_way) < MOST_FRAMES:
                self.number += 1
                heapq.heappush(self.under_way, (time.monotonic() + delay_ms / 1000, self.number, to, frame))

    def deliver(self, ports):
        while self.under_way and self.under_way[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(self.under_way)
            try:
                ports[to].send(frame)
            except OSError:
                pass  # A full queue loses it.

    def carry(self, ports):
        while True:
            patience = max(0, self.under_way[0][0] - time.monotonic()) if self.under_way else None
            readable, _, _ = select.select(ports, [], [], patience)
            for one in readable:
                try:
                    while True:
                        self.take(one.recv(MOST_BYTES), 1 - ports.index(one))
                except BlockingIOError:
                    pass
            self.deliver(ports)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one")
    parser.add_argument("other")
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--jitter-ms", type=float, default=0)
    parser.add_argument("--loss", type=float, default=0, help="of a hundred frames")
    parser.add_argument("--repeat", type=float, default=0, help="of a hundred frames")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    Wire(options).carry([port(options.one), port(options.other)])


if __name__ == "__main__":
    main()
