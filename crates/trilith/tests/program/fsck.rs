//! `trilith fsck`: everything is read and nothing changed; a lost manager folder comes back.

use crate::http::Connection;
use crate::server::{Home, LOOK, PATIENCE, Server, program, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Where devices keep the manager's copies (docs/format.md).
const COPIES: std::ops::Range<usize> = 1 << 20..5 << 20;

fn fsck(home: &Home, devices: &str, more: &[&str]) -> Output {
    program().arg("fsck").arg("--data").arg(home.data()).args(["--devices", devices]).args(more).output().unwrap()
}

fn well(output: &Output) -> String {
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && told.contains("All is well."), "{told}");
    told
}

fn wrong(output: &Output) -> String {
    let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{told}");
    told
}

fn devices(home: &Home, names: &[&str]) -> String {
    names.iter().map(|name| home.path(name).to_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
}

/// What a client put, by path.
type Content = BTreeMap<String, Vec<u8>>;

fn fill(server: &Server) -> Content {
    let mut content = Content::new();
    for bucket in ["pictures", "papers"] {
        server.make_open_bucket(bucket);
        let mut s3 = Connection::open(&server.s3).unwrap();
        for number in 0..40u32 {
            let path = format!("/{bucket}/small-{number}");
            content.insert(path.clone(), format!("{bucket} {number} ").repeat(number as usize + 1).into_bytes());
            assert_eq!(s3.ask("PUT", &path, &[], b"overwritten").unwrap().status, 200);
            assert_eq!(s3.ask("PUT", &path, &[], &content[&path]).unwrap().status, 200);
        }
        let large: Vec<u8> = (0..5_000_000u32).map(|at| (at / 11) as u8 ^ bucket.as_bytes()[1]).collect();
        assert_eq!(s3.ask("PUT", &format!("/{bucket}/large"), &[], &large).unwrap().status, 200);
        content.insert(format!("/{bucket}/large"), large);
        assert_eq!(s3.ask("DELETE", &format!("/{bucket}/small-7"), &[], b"").unwrap().status, 204);
        content.remove(&format!("/{bucket}/small-7"));
    }
    content
}

fn verify(server: &Server, content: &Content) {
    let mut s3 = Connection::open(&server.s3).unwrap();
    for (path, expected) in content {
        let answer = s3.get(path).unwrap();
        assert!(answer.status == 200 && answer.body == *expected, "{path}: {}", answer.status);
    }
    for bucket in ["pictures", "papers"] {
        assert_eq!(s3.get(&format!("/{bucket}/small-7")).unwrap().status, 404);
        assert_eq!(server.run(&["object", "ls", "-r", bucket]).lines().count(), 40);
    }
}

/// Made after all that is looked for later.
const LAST_BUCKET: &str = "last-of-all";

/// Waits until a device has a copy of the manager's state that names a bucket.
fn wait_for_copy(device: &Path, bucket: &str) {
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    let has_it = || std::fs::read(device).unwrap()[COPIES].windows(bucket.len()).any(|bytes| bytes == bucket.as_bytes());
    while !has_it() {
        assert!(env.now() < deadline, "no copy in {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
}

fn files_below(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files_below(&entry.path(), found);
        } else if kind.is_file() {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn a_lost_consensus_log_is_rebuilt_byte_for_byte() {
    for end in [Server::stop as fn(Server), Server::kill] {
        let home = Home::new();
        let both = devices(&home, &["one", "two"]);
        let server = home.serve(&["--devices", &both]);
        let content = fill(&server);
        // A copy that names it has the policies that were set before.
        server.run(&["bucket", "make", LAST_BUCKET]);
        wait_for_copy(&home.path("one"), LAST_BUCKET);
        end(server);
        std::fs::remove_dir_all(home.data().join("consensus")).unwrap();
        assert!(wrong(&fsck(&home, &both, &[])).contains("trilith fsck --rebuild"));
        let alone = wrong(&fsck(&home, &devices(&home, &["one"]), &["--rebuild"]));
        assert!(alone.contains("device 1") && alone.contains("--without 1"), "{alone}");
        let told = well(&fsck(&home, &both, &["--rebuild"]));
        assert!(told.contains("pictures: 40 objects") && told.contains("papers: 40 objects"), "{told}");
        assert!(wrong(&fsck(&home, &both, &["--rebuild"])).contains("is there"));
        for _ in 0..2 {
            let server = home.serve(&["--devices", &both]);
            verify(&server, &content);
            assert!(server.run(&["bucket", "policy", "get", "papers"]).contains("Allow"));
            server.make_open_bucket("another");
            server.run(&["bucket", "rm", "another"]);
            server.stop();
        }
        well(&fsck(&home, &both, &[]));
    }
}

#[test]
fn a_rebuild_without_a_device_that_is_gone() {
    let home = Home::new();
    let server = home.serve(&["--devices", &devices(&home, &["one", "two"])]);
    let content = fill(&server);
    server.stop();
    std::fs::remove_dir_all(home.data().join("consensus")).unwrap();
    std::fs::remove_file(home.path("two")).unwrap();
    let one = devices(&home, &["one"]);
    let unknown = wrong(&fsck(&home, &one, &["--rebuild", "--without", "1", "--without", "5"]));
    assert!(unknown.contains("no device 5"), "{unknown}");
    let told = well(&fsck(&home, &one, &["--rebuild", "--without", "1"]));
    assert!(told.contains("pictures: 40 objects"), "{told}");
    let server = home.serve(&["--devices", &one]);
    verify(&server, &content);
    server.stop();
    // Numbers after a rebuild are far from those before: one that came then was named everywhere, and got nothing.
    let server = home.serve(&["--devices", &devices(&home, &["one", "three"])]);
    let marked = b"a content that stands nowhere else".repeat(100);
    assert_eq!(Connection::open(&server.s3).unwrap().ask("PUT", "/papers/marked", &[], &marked).unwrap().status, 200);
    server.stop();
    assert!(["one", "three"].iter().all(|name| find(&home.path(name), &marked).is_some()), "it has two copies");
}

#[test]
fn fsck_finds_a_damaged_copy_and_changes_nothing() {
    for (end, is_saved) in [(Server::stop as fn(Server), true), (Server::kill, false)] {
        let home = Home::new();
        let both = devices(&home, &["one", "two"]);
        let server = home.serve(&["--devices", &both]);
        fill(&server);
        let marked = b"a content that stands nowhere else".repeat(100);
        let mut s3 = Connection::open(&server.s3).unwrap();
        assert_eq!(s3.ask("PUT", "/papers/marked", &[], &marked).unwrap().status, 200);
        end(server);
        well(&fsck(&home, &both, &[]));
        damage(&home.path("two"), &marked);
        let mut before = BTreeMap::new();
        files_below(home.path("one").parent().unwrap(), &mut before);
        let output = fsck(&home, &both, &[]);
        if is_saved {
            let told = wrong(&output);
            let parts = ["WRONG: `marked`", "device 1 zone", "another copy is good"];
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        } else {
            // It looks like a copy that the crash tore, which a start mends.
            let told = well(&output);
            assert!(told.contains("1 copies of those are torn, damaged or missing"), "{told}");
        }
        let mut after = BTreeMap::new();
        files_below(home.path("one").parent().unwrap(), &mut after);
        assert!(before.keys().eq(after.keys()) && before == after, "nothing was changed");
        let server = home.serve(&["--devices", &both]);
        let busy = wrong(&fsck(&home, &both, &[]));
        assert!(busy.contains(&format!("in use by process {}", server.pid())), "{busy}");
        assert!(Connection::open(&server.s3).unwrap().get("/papers/marked").unwrap().body == marked);
    }
}

/// Where a content stands on a device.
fn find(device: &Path, content: &[u8]) -> Option<usize> {
    std::fs::read(device).unwrap().windows(content.len()).position(|window| window == content)
}

/// Changes one bit of a content on a device.
fn damage(device: &Path, content: &[u8]) {
    let at = find(device, content).expect("it was written");
    let mut bytes = std::fs::read(device).unwrap();
    bytes[at + 1000] ^= 1;
    std::fs::write(device, &bytes).unwrap();
}
