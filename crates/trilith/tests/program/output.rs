//! Commands whose output is closed, or can't be kept.

use crate::server::{Home, Server, text};
use std::fs::OpenOptions;
use std::io::{Write, pipe};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command whose output nobody reads; what it complains about, and its exit code.
fn unread(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.stdout(closed()).stderr(Stdio::piped()).output().unwrap();
    (status.code(), text(&stderr))
}

fn put(server: &Server, target: &str, content: &[u8]) {
    let mut child =
        server.command(&["object", "put", "-", target]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Of every group of commands those that print. Caught: a panic of `println!`.
#[test]
fn commands_end_quietly_when_their_output_is_closed() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "box"]);
    put(&server, "box/key", &vec![b'x'; 300_000]);
    let file = home.path("file");
    std::fs::write(&file, b"content").unwrap();
    let file = file.to_str().unwrap();
    let down = home.path("down");
    let down = down.to_str().unwrap();
    let disk = home.data().join("device-0.trilith");
    let disk = disk.to_str().unwrap().to_owned();
    let cluster = home.path("cluster");
    let cluster = cluster.to_str().unwrap().to_owned();
    for arguments in [
        &["bucket", "ls"][..],
        &["bucket", "make", "another"],
        &["bucket", "policy", "set", "box", "public-read"],
        &["bucket", "policy", "get", "box"],
        &["bucket", "rm", "another"],
        &["object", "ls", "box"],
        &["object", "get", "box/key", "-"],
        &["object", "get", "box/key", down],
        &["object", "put", file, "box/put"],
        &["object", "cp", "box/put", "box/copy"],
        &["object", "rm", "box/copy"],
        &["status"],
        &["status", "--json"],
        &["device", "scrub"],
        &["cluster", "init", "--data", &cluster],
        &["cluster", "token", "--data", &cluster],
        &["bench", "s3", "--help"],
        &["--help"],
        &["--version"],
    ] {
        let (code, said) = unread(&mut server.command(arguments));
        assert!(code.is_some_and(|code| code < 2) && said.is_empty(), "{arguments:?}: {code:?} {said}");
    }
    let unheard = server.command(&["object", "get", "box/missing", "-"]).stderr(closed()).output().unwrap();
    assert_eq!(unheard.status.code(), Some(1), "also where nobody hears a complaint");
    assert_eq!(std::fs::read(Path::new(down)).unwrap().len(), 300_000, "what was done is done");
    server.stop();
    for arguments in [&["device", "inspect", &disk, "--zones"][..], &["fsck", "--data", home.data().to_str().unwrap()]] {
        let (code, said) = unread(crate::server::program().args(arguments));
        assert_eq!((code, said.as_str()), (Some(1), ""), "{arguments:?}");
    }
}

/// What nobody reads from.
fn closed() -> std::io::PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn output_that_cant_be_kept_is_told() {
    let home = Home::new();
    let server = home.serve(&["--default-buckets", "box"]);
    for arguments in [&["status"][..], &["bucket", "ls"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = server.command(arguments).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("writing the output: No space left"), "{arguments:?}: {said}");
    }
}
