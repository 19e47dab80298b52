#!/usr/bin/env python3
"""Crashes a whole virtual machine under load, again and again, and verifies after each that nothing acknowledged was lost.

    tests/vm/crash.py --guest GUEST [--trilith PROGRAM] [--crashes 10] [--folder FOLDER] [--sync off]

GUEST is a program that boots a virtual machine over the host's root file system and runs a command in it:
`GUEST --disk FILE --disk FILE --rw FOLDER --timeout SECONDS -- COMMAND...`; killing it is a power cut of the machine. Page caches
and I/O in flight are lost; the disk files keep what reached them. Not part of ./test: it needs qemu and minutes.

With `--sync off` the server acknowledges without flushing. Then the run succeeds only if a crash was seen to lose something that was
acknowledged: it shows that the run without it would notice.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guest", required=True)
    parser.add_argument("--trilith", default=f"{ROOT}/target/release/trilith")
    parser.add_argument("--crashes", type=int, default=10)
    parser.add_argument("--folder")
    parser.add_argument("--sync", choices=["always", "off"], default="always")
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp(prefix="trilith-vm-")
    for name, size in (("log.img", 2 << 30), ("state.img", 512 << 20)):
        with open(f"{folder}/{name}", "wb") as disk:
            disk.truncate(size)
    lives = []
    for life in range(options.crashes + 1):
        # The last life only verifies.
        lives.append(live(options, folder, life, crash=life < options.crashes))
        if options.sync == "off" and lives[-1].lost:
            break
    lost, other = sum(life.lost for life in lives), sum(life.other for life in lives)
    print(f"{len(lives) - 1} crashes, sync {options.sync}: {lost} acknowledged writes lost, {other} other wrong answers; "
          f"everything is in {folder}")
    if options.sync == "off":
        print("without flushes a crash loses writes, and the run notices" if lost else
              "WRONG: nothing was lost without flushes, so a run with them proves nothing")
        sys.exit(0 if lost else 1)
    sys.exit(1 if lost or other else 0)


class Verdict:
    """What one life found: keys verified, acknowledged writes that were gone, and other wrong answers."""

    def __init__(self, text):
        self.keys, self.lost, self.other = map(int, text.split())


def live(options, folder, life, crash):
    command = [options.guest, "--disk", f"{folder}/log.img", "--disk", f"{folder}/state.img", "--rw", folder, "--timeout", "550",
               "--", sys.executable, f"{HERE}/inside.py", options.trilith, folder, str(life), options.sync]
    with open(f"{folder}/console-{life}.log", "w") as console:
        machine = subprocess.Popen(command, stdout=console, stderr=console, start_new_session=True)
    wait_for(f"{folder}/writing-{life}", machine, 500)
    if crash:
        time.sleep(random.uniform(4, 12))
    power_cut(machine)
    verdict = Verdict(open(f"{folder}/verdict-{life}").read())
    print(f"life {life}: {verdict.keys} keys verified, {verdict.lost} lost, {verdict.other} otherwise wrong", flush=True)
    return verdict


def power_cut(machine):
    """Kills everything in the machine's session: programs in it may have made process groups of their own. Waits until all have
    gone: as long as one holds the disks, no other machine starts."""
    session = str(machine.pid)
    subprocess.run(["pkill", "-KILL", "-s", session], check=False)
    machine.wait()
    while subprocess.run(["pgrep", "-s", session], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        time.sleep(0.1)


def wait_for(path, machine, seconds):
    for _ in range(seconds * 5):
        if os.path.exists(path):
            return
        if machine.poll() is not None:
            sys.exit(f"the machine ended before {os.path.basename(path)}: see its console log")
        time.sleep(0.2)
    power_cut(machine)
    sys.exit(f"no {os.path.basename(path)} within {seconds} s: see the console log")


main()
