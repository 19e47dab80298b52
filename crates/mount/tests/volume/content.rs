//! The bytes of files: appends, mappings, copies, and errors.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::{Command, Stdio};

use filesystem::data::DataError;
use rustix::fs::copy_file_range;
use rustix::io::Errno;

use crate::harness::{Mounted, lacks, open, pattern, run, skipped};

const DIRECT: i32 = 0o40_000;

#[test]
fn large_files_are_written_and_read_through_the_cache_and_beside_it() {
    if skipped("large_files") {
        return;
    }
    let mount = Mounted::new();
    let content = pattern((5 << 20) + 123, 1);
    fs::write(mount.path("f"), &content).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), content);
    let direct = File::options().read(true).write(true).custom_flags(DIRECT).open(mount.path("f")).unwrap();
    let mut read = vec![0; content.len()];
    direct.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(read, content);
    direct.write_all_at(&[8; 8192], 4096).unwrap();
    let read = fs::read(mount.path("f")).unwrap();
    assert_eq!(read[4096..12_288], [8; 8192]);
    assert_eq!(read[12_288..], content[12_288..]);
    assert_eq!(direct.metadata().unwrap().size(), content.len() as u64);
}

#[test]
fn appends_of_two_processes_are_whole_and_none_is_lost() {
    if skipped("appends_of_two_processes") || lacks("appends_of_two_processes", "python3") {
        return;
    }
    let mount = Mounted::new();
    const LINES: usize = 400;
    let script = "import os, sys\n\
        f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
        for i in range(int(sys.argv[3])): os.write(f, (sys.argv[2] * (i % 90 + 1) + '\\n').encode())";
    let path = mount.path("f");
    let start = |mark: &str| {
        let arguments = ["-c", script, path.to_str().unwrap(), mark, &LINES.to_string()];
        Command::new("python3").args(arguments).stdin(Stdio::null()).spawn().unwrap()
    };
    for mut child in [start("a"), start("b")] {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read_to_string(&path).unwrap();
    for mark in ["a", "b"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(mark)).collect();
        let expected: Vec<String> = (0..LINES).map(|index| mark.repeat(index % 90 + 1)).collect();
        assert_eq!(lines, expected, "the lines of one process are whole and in order");
    }
    assert_eq!(text.lines().count(), 2 * LINES);
}

#[test]
fn a_mapped_file_is_read_and_written() {
    if skipped("a_mapped_file_is_read_and_written") || lacks("a_mapped_file_is_read_and_written", "python3") {
        return;
    }
    let mount = Mounted::new();
    fs::write(mount.path("f"), pattern(12_300, 0)).unwrap();
    let script = "import mmap, os, sys\n\
        f = os.open(sys.argv[1], os.O_RDWR)\n\
        m = mmap.mmap(f, 0)\n\
        m[5000:5005] = b'hello'\n\
        m[12290:12295] = b'world'\n\
        m.flush()\n\
        os.fsync(f)\n\
        m.close()";
    run("python3", &["-c", script, mount.path("f").to_str().unwrap()]);
    let mut expected = pattern(12_300, 0);
    expected[5000..5005].copy_from_slice(b"hello");
    expected[12_290..12_295].copy_from_slice(b"world");
    assert_eq!(fs::read(mount.path("f")).unwrap(), expected);
    let mount = mount.again();
    assert_eq!(fs::read(mount.path("f")).unwrap(), expected, "it is in the volume, not only in the page cache");
}

#[test]
fn ranges_are_copied_by_the_file_system() {
    if skipped("ranges_are_copied_by_the_file_system") {
        return;
    }
    let mount = Mounted::new();
    let (source, target) = (open(&mount, "source"), open(&mount, "target"));
    let content = pattern(3 << 20, 5);
    source.write_all_at(&content, 0).unwrap();
    target.write_all_at(b"before", 0).unwrap();
    let (mut from, mut to) = (100, 6);
    while to < 6 + (2 << 20) {
        let length = (6 + (2 << 20) - to) as usize;
        let copied = copy_file_range(&source, Some(&mut from), &target, Some(&mut to), length).unwrap();
        assert!(copied > 0);
    }
    let read = fs::read(mount.path("target")).unwrap();
    assert_eq!(read[..6], *b"before");
    assert_eq!(read[6..], content[100..100 + (2 << 20)]);
    let (mut at_end, mut to) = (3 << 20, 0);
    assert_eq!(copy_file_range(&source, Some(&mut at_end), &target, Some(&mut to), 10), Ok(0));
}

#[test]
fn truncation_at_open_and_appends_of_two_descriptors() {
    if skipped("truncation_at_open") {
        return;
    }
    let mount = Mounted::new();
    let append = || OpenOptions::new().append(true).create(true).open(mount.path("f")).unwrap();
    let (mut one, mut two) = (append(), append());
    for _ in 0..3 {
        one.write_all(b"one,").unwrap();
        two.write_all(b"two,").unwrap();
    }
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"one,two,one,two,one,two,");
    File::create(mount.path("f")).unwrap();
    assert_eq!(fs::metadata(mount.path("f")).unwrap().size(), 0);
    one.write_all(b"again").unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"again");
}

#[test]
fn a_write_that_failed_is_told_again_at_fsync() {
    if skipped("a_write_that_failed_is_told_again_at_fsync") {
        return;
    }
    let mount = Mounted::new();
    let file = open(&mount, "f");
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync_all().unwrap();
    mount.data().fail(Some(DataError::Unavailable("as the test wants it".to_owned())));
    let refused = file.write_all_at(&[2; 100], 4000).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::IO.raw_os_error()));
    mount.data().fail(None);
    let told = file.sync_all().unwrap_err();
    assert_eq!(told.raw_os_error(), Some(Errno::IO.raw_os_error()));
    file.sync_all().unwrap();
    file.write_all_at(&[3; 100], 4000).unwrap();
    let read = fs::read(mount.path("f")).unwrap();
    assert_eq!((&read[..4000], &read[4000..4100]), (&[1; 4000][..], &[3; 100][..]));
}

#[test]
fn what_is_lost_is_an_error_and_never_zeros() {
    if skipped("what_is_lost_is_an_error") {
        return;
    }
    let mount = Mounted::new();
    fs::write(mount.path("f"), [1; 100]).unwrap();
    let mount = mount.again();
    mount.data().lose_everything();
    let refused = fs::read(mount.path("f")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::IO.raw_os_error()));
}
