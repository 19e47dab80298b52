//! The bytes of files.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FallocateFlags, copy_file_range, fallocate, seek};
use rustix::io::Errno;

use crate::harness::{Mounted, lacks, run, skipped};
use crate::memfs::MemFs;

const PAGE: u64 = 4096;
const DIRECT: i32 = 0o40_000;

fn mounted() -> Mounted {
    Mounted::new(Arc::new(MemFs::new(Duration::from_secs(3600))))
}

fn open(mount: &Mounted, name: &str) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(mount.path(name)).unwrap()
}

/// Bytes that differ from page to page.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index / 7 % 251) as u8).collect()
}

#[test]
fn large_files_are_written_and_read_through_the_cache_and_beside_it() {
    if skipped("large_files") {
        return;
    }
    let mount = mounted();
    let content = pattern(5 << 20);
    fs::write(mount.path("f"), &content).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), content);
    let mut direct = File::options().read(true).custom_flags(DIRECT).open(mount.path("f")).unwrap();
    let mut read = Vec::new();
    direct.read_to_end(&mut read).unwrap();
    assert_eq!(read, content);
    let metadata = direct.metadata().unwrap();
    assert_eq!((metadata.size(), metadata.blocks()), (5 << 20, 5 << 11));
}

#[test]
fn holes_are_made_found_and_filled() {
    if skipped("holes_are_made_found_and_filled") {
        return;
    }
    let mount = mounted();
    let file = open(&mount, "f");
    file.write_all_at(&[1; 8 * PAGE as usize], 0).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, PAGE + 10, 3 * PAGE).unwrap();
    let content = fs::read(mount.path("f")).unwrap();
    let (start, end) = (PAGE as usize + 10, 4 * PAGE as usize + 10);
    assert!(content[..start].iter().chain(&content[end..]).all(|byte| *byte == 1));
    assert!(content[start..end].iter().all(|byte| *byte == 0));
    assert_eq!(file.metadata().unwrap().blocks(), 6 * 8, "two whole pages are free");
    let find = |from| seek(&file, from);
    assert_eq!(find(rustix::fs::SeekFrom::Hole(0)), Ok(2 * PAGE));
    assert_eq!(find(rustix::fs::SeekFrom::Data(2 * PAGE + 5)), Ok(4 * PAGE));
    assert_eq!(find(rustix::fs::SeekFrom::Hole(4 * PAGE)), Ok(8 * PAGE), "the end is one");
    assert_eq!(find(rustix::fs::SeekFrom::Data(8 * PAGE)), Err(Errno::NXIO));
    fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 7 * PAGE, 3 * PAGE).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.size(), metadata.blocks()), (8 * PAGE, 8 * 8), "allocated beyond the end");
    assert_eq!(fs::read(mount.path("f")).unwrap()[7 * PAGE as usize..], [0; PAGE as usize]);
    fallocate(&file, FallocateFlags::empty(), 0, 9 * PAGE).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 9 * PAGE);
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, PAGE), Err(Errno::OPNOTSUPP));
}

#[test]
fn ranges_are_copied_by_the_file_system() {
    if skipped("ranges_are_copied_by_the_file_system") {
        return;
    }
    let mount = mounted();
    let (source, target) = (open(&mount, "source"), open(&mount, "target"));
    let content = pattern(3 << 20);
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
}

#[test]
fn appends_of_two_descriptors_follow_each_other_and_truncation_cuts() {
    if skipped("appends_and_truncation") {
        return;
    }
    let mount = mounted();
    let append = || OpenOptions::new().append(true).create(true).open(mount.path("f")).unwrap();
    let (mut one, mut two) = (append(), append());
    for _ in 0..3 {
        one.write_all(b"one,").unwrap();
        two.write_all(b"two,").unwrap();
    }
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"one,two,one,two,one,two,");
    one.set_len(5).unwrap();
    one.set_len(10).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"one,t\0\0\0\0\0");
    File::create(mount.path("f")).unwrap();
    assert_eq!(fs::metadata(mount.path("f")).unwrap().size(), 0, "O_TRUNC");
}

#[test]
fn a_mapped_file_is_read_and_written() {
    if skipped("a_mapped_file_is_read_and_written") || lacks("a_mapped_file_is_read_and_written", "python3") {
        return;
    }
    let mount = mounted();
    fs::write(mount.path("f"), pattern(3 * PAGE as usize)).unwrap();
    let script = "import mmap, os, sys\n\
        f = os.open(sys.argv[1], os.O_RDWR)\n\
        m = mmap.mmap(f, 0)\n\
        assert m[7] == 1, m[7]\n\
        m[5000:5005] = b'hello'\n\
        m.flush()\n\
        m.close()";
    run("python3", &["-c", script, mount.path("f").to_str().unwrap()]);
    let mut expected = pattern(3 * PAGE as usize);
    expected[5000..5005].copy_from_slice(b"hello");
    assert_eq!(fs::read(mount.path("f")).unwrap(), expected);
}

#[test]
fn a_full_file_system_says_so_and_goes_on() {
    if skipped("a_full_file_system_says_so_and_goes_on") {
        return;
    }
    let mount = mounted();
    let mut file = open(&mount, "f");
    let refused = fallocate(&file, FallocateFlags::empty(), 0, 1 << 40);
    assert_eq!(refused, Err(Errno::NOSPC));
    file.seek(SeekFrom::Start(1 << 40)).unwrap();
    file.write_all(b"far away").unwrap();
    assert_eq!(file.metadata().unwrap().size(), (1 << 40) + 8);
    assert_eq!(file.metadata().unwrap().blocks(), 8);
}
