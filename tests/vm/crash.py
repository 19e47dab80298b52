#!/usr/bin/env python3
"""Crashes a whole virtual machine under load, again and again, and verifies after each that nothing acknowledged was lost.

    tests/vm/crash.py --guest GUEST [--trilith PROGRAM] [--crashes 10] [--folder FOLDER]

GUEST is a program that boots a virtual machine over the host's root file system and runs a command in it:
`GUEST --disk FILE --disk FILE --rw FOLDER --timeout SECONDS -- COMMAND...`; killing it is a power cut of the machine. Page caches
and I/O in flight are lost; the disk files keep what reached them. Not part of ./test: it needs qemu and minutes.
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
    options = parser.parse_args()
    folder = options.folder or tempfile.mkdtemp(prefix="trilith-vm-")
    for name, size in (("log.img", 2 << 30), ("state.img", 512 << 20)):
        with open(f"{folder}/{name}", "wb") as disk:
            disk.truncate(size)
    wrong = 0
    for life in range(options.crashes + 1):
        # The last life only verifies.
        wrong += live(options, folder, life, crash=life < options.crashes)
    print(f"{options.crashes} crashes, {wrong} wrong answers; everything is in {folder}")
    sys.exit(1 if wrong else 0)


def live(options, folder, life, crash):
    command = [options.guest, "--disk", f"{folder}/log.img", "--disk", f"{folder}/state.img", "--rw", folder, "--timeout", "550",
               "--", sys.executable, f"{HERE}/inside.py", options.trilith, folder, str(life)]
    with open(f"{folder}/console-{life}.log", "w") as console:
        machine = subprocess.Popen(command, stdout=console, stderr=console, start_new_session=True)
    wait_for(f"{folder}/writing-{life}", machine, 500)
    if crash:
        time.sleep(random.uniform(4, 12))
    power_cut(machine)
    keys, wrong = map(int, open(f"{folder}/verdict-{life}").read().split())
    print(f"life {life}: {keys} keys verified, {wrong} wrong", flush=True)
    return wrong


def power_cut(machine):
    """Kills everything in the machine's session: programs in it may have made process groups of their own."""
    subprocess.run(["pkill", "-KILL", "-s", str(machine.pid)], check=False)
    machine.wait()


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
