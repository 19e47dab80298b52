//! Exclusive mounts: the kernel buffers writes, and has sizes and times of files.

use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use rustix::fs::{SeekFrom, XattrFlags, getxattr, seek, setxattr};

use crate::harness::{Mounted, open, pattern, skipped};

const BLOCK: usize = 4096;

#[test]
fn what_is_buffered_arrives() {
    if skipped("what_is_buffered_arrives") {
        return;
    }
    let mut mount = Mounted::exclusive();
    let content = pattern(700 * BLOCK + 123, 1);
    let mut file = open(&mount, "f");
    content.chunks(1000).for_each(|chunk| file.write_all(chunk).unwrap());
    assert_eq!(file.metadata().unwrap().len(), content.len() as u64);
    drop(file);
    assert_eq!(fs::read(mount.path("f")).unwrap(), content);
    mount = mount.again();
    assert_eq!(fs::read(mount.path("f")).unwrap(), content);
}

#[test]
fn parts_of_blocks_are_written_by_files_that_can_not_read() {
    if skipped("parts_of_blocks") {
        return;
    }
    let mut mount = Mounted::exclusive();
    let mut content = pattern(3 * BLOCK, 2);
    fs::write(mount.path("f"), &content).unwrap();
    mount = mount.again();
    let file = OpenOptions::new().write(true).open(mount.path("f")).unwrap();
    file.write_all_at(b"within", 5000).unwrap();
    content[5000..5006].copy_from_slice(b"within");
    drop(file);
    mount = mount.again();
    assert_eq!(fs::read(mount.path("f")).unwrap(), content);
}

#[test]
fn records_that_many_append_are_whole() {
    if skipped("records_that_many_append") {
        return;
    }
    let mut mount = Mounted::exclusive();
    let path = mount.path("log");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let mut log = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            scope.spawn(move || {
                for number in 0..500 {
                    log.write_all(format!("{writer} {number:0100}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    mount = mount.again();
    let log = fs::read_to_string(mount.path("log")).unwrap();
    let mut next = [0; 4];
    for line in log.lines() {
        let (writer, number) = line.split_once(' ').unwrap();
        let next = &mut next[writer.parse::<usize>().unwrap()];
        assert_eq!((number.len(), number.parse::<u32>().unwrap()), (100, *next));
        *next += 1;
    }
    assert_eq!(next, [500; 4]);
}

#[test]
fn times_are_the_kernels_and_stay() {
    if skipped("times_are_the_kernels") {
        return;
    }
    let mut mount = Mounted::exclusive();
    let names = ["written", "again", "set", "mode", "linked", "cut", "longer"];
    for name in names {
        fs::write(mount.path(name), pattern(2 * BLOCK, 3)).unwrap();
    }
    // Later than the file was made, and before it is written back.
    std::thread::sleep(Duration::from_millis(20));
    open(&mount, "again").write_all_at(b"in place", 10).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let set = open(&mount, "set");
    set.write_all_at(b"before", 10).unwrap();
    set.set_times(FileTimes::new().set_modified(long_ago)).unwrap();
    drop(set);
    assert_eq!(fs::metadata(mount.path("set")).unwrap().modified().unwrap(), long_ago);
    fs::set_permissions(mount.path("mode"), Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(mount.path("linked"), mount.path("other")).unwrap();
    open(&mount, "cut").set_len(100).unwrap();
    open(&mount, "longer").set_len(100_000).unwrap();
    let seen = |mount: &Mounted| {
        names.map(|name| {
            let found = fs::metadata(mount.path(name)).unwrap();
            (name, found.len(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec(), found.mode())
        })
    };
    let before = seen(&mount);
    mount = mount.again();
    assert_eq!(seen(&mount), before);
}

#[test]
fn a_capability_that_is_set_after_a_write_stays() {
    if skipped("a_capability_that_is_set_after_a_write") {
        return;
    }
    let mount = Mounted::exclusive();
    let file = open(&mount, "f");
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let has = || getxattr(mount.path("f"), "security.capability", &mut [0; 64]).is_ok();
    file.write_all_at(b"buffered", 0).unwrap();
    setxattr(mount.path("f"), "security.capability", &capability, XattrFlags::empty()).unwrap();
    file.sync_all().unwrap();
    assert!(has(), "writing back is no write");
    file.write_all_at(b"once more", 0).unwrap();
    file.sync_all().unwrap();
    assert!(!has(), "a write drops it");
}

#[test]
fn what_is_not_written_back_is_no_hole_and_is_copied() {
    if skipped("what_is_not_written_back") {
        return;
    }
    let mount = Mounted::exclusive();
    let file = open(&mount, "f");
    file.write_all_at(b"end", 300_000).unwrap();
    let next = seek(&file, SeekFrom::Data(0)).unwrap();
    assert!(next <= 300_000, "{next}");
    assert_eq!(seek(&file, SeekFrom::Hole(300_000)).unwrap(), 300_003);
    let mut copy = File::create(mount.path("copy")).unwrap();
    // The standard library copies by copy_file_range where it can.
    assert_eq!(std::io::copy(&mut open(&mount, "f"), &mut copy).unwrap(), 300_003);
    assert_eq!(fs::read(mount.path("copy")).unwrap(), fs::read(mount.path("f")).unwrap());
}
