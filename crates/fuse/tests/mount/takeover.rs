//! A mount that outlives the process that serves it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use fuse::{Mount, Session, Unmount};

use crate::harness::{PATIENCE, eventually, options, skipped};
use crate::serve::{SOCKET_VARIABLE, Waiting};

/// Starts a process that serves the mount: it takes the mount from the keeper's socket, or makes it and sends it there.
fn start(role: &str, point: &str, socket: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", role, "--nocapture"]).env("FUSE_SERVE", point).env(SOCKET_VARIABLE, socket);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let says = BufReader::new(child.stdout.take().unwrap());
    (child, says)
}

fn expect(says: &mut BufReader<std::process::ChildStdout>, word: &str) {
    let found = says.lines().map_while(Result::ok).find(|line| line.contains(word));
    assert!(found.is_some(), "the process ended without {word:?}");
}

#[test]
fn a_blocked_call_goes_on_after_the_process_that_served_it_was_killed() {
    if skipped("a_blocked_call_goes_on_after_the_process_that_served_it_was_killed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (point, socket_path) = (folder.path().join("mount"), folder.path().join("keeper"));
    fs::create_dir(&point).unwrap();
    let keeper = UnixListener::bind(&socket_path).unwrap();
    let (mut first, mut says) = start("serve::never_answers", point.to_str().unwrap(), socket_path.to_str().unwrap());
    let (socket, _) = keeper.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let kept = Mount::receive(&socket).unwrap();
    assert_eq!(kept.point(), point.canonicalize().unwrap());

    let path = point.join("blocked");
    let call = std::thread::spawn(move || fs::read_to_string(path));
    expect(&mut says, "a call waits");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!call.is_finished(), "it waits for the next process");

    let (theirs, ours) = UnixStream::pair().unwrap();
    kept.send(&ours).unwrap();
    let taken = Mount::receive(&theirs).unwrap();
    let file_system = Arc::new(Waiting::that_answers());
    let session = Session::start(taken, Arc::clone(&file_system), &options(2)).unwrap();
    assert_eq!(call.join().unwrap().unwrap(), "answered by the second process");
    assert!(file_system.has_seen_a_resent_request());
    // A process that another test starts has a copy of the file's descriptor until it runs its program.
    eventually(|| kept.unmount(Unmount::Clean).is_ok());
    assert!(session.wait_for(PATIENCE).is_some());
}

#[test]
fn without_a_keeper_calls_fail_when_the_process_is_killed() {
    if skipped("without_a_keeper_calls_fail_when_the_process_is_killed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().join("mount");
    fs::create_dir(&point).unwrap();
    let (mut first, mut says) = start("serve::never_answers", point.to_str().unwrap(), "");
    expect(&mut says, "serving");
    let path = point.join("blocked");
    let call = std::thread::spawn(move || fs::read_to_string(path));
    expect(&mut says, "a call waits");
    first.kill().unwrap();
    first.wait().unwrap();
    let error = call.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(103), "ECONNABORTED: {error}");
    let after = fs::metadata(point.join("other")).unwrap_err();
    assert_eq!(after.raw_os_error(), Some(107), "ENOTCONN: {after}");
    fuse::unmount(
        &point.canonicalize().unwrap_or_else(|_| folder.path().canonicalize().unwrap().join("mount")),
        Unmount::Clean,
    )
    .unwrap();
}

#[test]
fn a_kept_mount_that_is_not_served_can_be_aborted() {
    if skipped("a_kept_mount_that_is_not_served_can_be_aborted") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (point, socket_path) = (folder.path().join("mount"), folder.path().join("keeper"));
    fs::create_dir(&point).unwrap();
    let keeper = UnixListener::bind(&socket_path).unwrap();
    let (mut first, _says) = start("serve::never_answers", point.to_str().unwrap(), socket_path.to_str().unwrap());
    let (socket, _) = keeper.accept().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let kept = Mount::receive(&socket).unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    let (sender, thread) = sync_channel(1);
    let call = std::thread::spawn(move || {
        sender.send(fs::read_link("/proc/thread-self").unwrap()).unwrap();
        fs::metadata(point.join("f")).unwrap_err()
    });
    // Where the kernel's code has put the thread to sleep.
    let sleeps_in = Path::new("/proc").join(thread.recv().unwrap()).join("wchan");
    eventually(|| fs::read_to_string(&sleeps_in).unwrap().contains("request_wait_answer"));
    kept.unmount(Unmount::Abort).unwrap();
    let error = call.join().unwrap();
    assert_eq!(error.raw_os_error(), Some(103), "ECONNABORTED: {error}");
}
