//! flock and fcntl locks, and interrupted waits.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Mounted, eventually, lacks, skipped};
use crate::memfs::MemFs;

fn mounted(test: &str) -> Option<Mounted> {
    if skipped(test) || lacks(test, "python3") {
        return None;
    }
    let mount = Mounted::new(Arc::new(MemFs::new(Duration::from_secs(3600))));
    File::create(mount.path("f")).unwrap();
    Some(mount)
}

/// A process that runs a script of Python, with `f` the open file, and says what it does.
struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Process {
    fn start(file: &Path, script: &str) -> Self {
        let script = format!(
            "import fcntl, os, sys, signal, time\n\
             signal.signal(signal.SIGINT, signal.SIG_DFL)\n\
             def say(what): print(what, flush=True)\n\
             f = os.open(sys.argv[1], os.O_RDWR)\n{script}"
        );
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap());
        Process { child, says }
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

const WAIT_FOR_STDIN: &str = "sys.stdin.read()\n";

#[test]
fn a_blocked_flock_is_granted_when_the_holder_closes() {
    let Some(mount) = mounted("a_blocked_flock_is_granted_when_the_holder_closes") else { return };
    let holder = File::open(mount.path("f")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    let mut waiter = Process::start(&mount.path("f"), "say('begins')\nfcntl.flock(f, fcntl.LOCK_EX)\nsay('has it')\n");
    waiter.expect("begins");
    eventually(|| mount.session().in_flight() == 1);
    drop(holder);
    waiter.expect("has it");
    assert!(waiter.end().success());
}

#[test]
fn a_blocked_flock_is_ended_by_a_signal() {
    let Some(mount) = mounted("a_blocked_flock_is_ended_by_a_signal") else { return };
    let holder = File::open(mount.path("f")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    for signal in [Signal::INT, Signal::KILL] {
        let mut waiter = Process::start(&mount.path("f"), "say('begins')\nfcntl.flock(f, fcntl.LOCK_EX)\nsay('has it')\n");
        waiter.expect("begins");
        eventually(|| mount.session().in_flight() == 1);
        waiter.signal(signal);
        waiter.expect("");
        assert!(!waiter.end().success());
        eventually(|| mount.session().in_flight() == 0);
    }
    flock(&holder, FlockOperation::Unlock).unwrap();
    let other = File::open(mount.path("f")).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_handled_signal_interrupts_a_wait_with_eintr() {
    let Some(mount) = mounted("a_handled_signal_interrupts_a_wait_with_eintr") else { return };
    let holder = File::open(mount.path("f")).unwrap();
    flock(&holder, FlockOperation::LockExclusive).unwrap();
    // The handler raises, or Python would begin the call anew.
    let script = "def stop(*_): raise InterruptedError\n\
        signal.signal(signal.SIGUSR1, stop)\n\
        say('begins')\n\
        try:\n    fcntl.flock(f, fcntl.LOCK_EX)\n    say('has it')\n\
        except InterruptedError:\n    say('interrupted')\n";
    let mut waiter = Process::start(&mount.path("f"), script);
    waiter.expect("begins");
    eventually(|| mount.session().in_flight() == 1);
    waiter.signal(Signal::USR1);
    waiter.expect("interrupted");
    assert!(waiter.end().success());
}

#[test]
fn fcntl_locks_of_ranges_are_told_from_flock() {
    let Some(mount) = mounted("fcntl_locks_of_ranges_are_told_from_flock") else { return };
    let script = "fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)\nsay('holds')\n".to_owned() + WAIT_FOR_STDIN;
    let mut holder = Process::start(&mount.path("f"), &script);
    holder.expect("holds");
    let other = File::open(mount.path("f")).unwrap();
    flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    let script = "def lock(length, start):\n\
        \x20   try:\n        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)\n        return 'free'\n\
        \x20   except OSError:\n        return 'held'\n\
        say(lock(5, 0))\nsay(lock(5, 14))\nsay(lock(0, 15))\n\
        import struct\n\
        asked = struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 100, 0)\n\
        kind, _, start, length, pid = struct.unpack('hhqqi', fcntl.fcntl(f, fcntl.F_GETLK, asked))\n\
        say(f'{kind == fcntl.F_WRLCK} {start} {length}')\n";
    let mut asking = Process::start(&mount.path("f"), script);
    asking.expect("free");
    asking.expect("held");
    asking.expect("free");
    asking.expect("True 5 10");
    assert!(asking.end().success());
    assert!(holder.end().success());
    let script = "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\nsay('free')\n";
    let mut after = Process::start(&mount.path("f"), script);
    after.expect("free");
    assert!(after.end().success(), "the close gave the range up");
}

#[test]
fn a_killed_process_gives_its_locks_up() {
    let Some(mount) = mounted("a_killed_process_gives_its_locks_up") else { return };
    let script = "fcntl.flock(f, fcntl.LOCK_EX)\nsay('holds')\n".to_owned() + WAIT_FOR_STDIN;
    let mut holder = Process::start(&mount.path("f"), &script);
    holder.expect("holds");
    let other = File::open(mount.path("f")).unwrap();
    assert_eq!(flock(&other, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK));
    holder.signal(Signal::KILL);
    assert!(!holder.end().success());
    flock(&other, FlockOperation::LockShared).unwrap();
}
