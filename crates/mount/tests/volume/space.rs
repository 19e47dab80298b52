//! Holes, and space that is allocated or given back.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use crate::harness::{CAPACITY_BYTES, Mounted, open, skipped};

const PAGE: u64 = 4096;

#[test]
fn holes_are_made_found_and_filled() {
    if skipped("holes_are_made_found_and_filled") {
        return;
    }
    let mount = Mounted::new();
    let file = open(&mount, "f");
    file.write_all_at(&[1; 8 * PAGE as usize], 0).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, PAGE + 10, 3 * PAGE).unwrap();
    let content = fs::read(mount.path("f")).unwrap();
    let (start, end) = (PAGE as usize + 10, 4 * PAGE as usize + 10);
    assert!(content[..start].iter().chain(&content[end..]).all(|byte| *byte == 1));
    assert!(content[start..end].iter().all(|byte| *byte == 0));
    assert_eq!(file.metadata().unwrap().blocks(), 6 * 8, "two whole pages are free");
    let find = |from| seek(&file, from);
    assert_eq!(find(SeekFrom::Hole(0)), Ok(2 * PAGE));
    assert_eq!(find(SeekFrom::Data(2 * PAGE + 5)), Ok(4 * PAGE));
    assert_eq!(find(SeekFrom::Hole(4 * PAGE)), Ok(8 * PAGE), "the end is one");
    assert_eq!(find(SeekFrom::Data(8 * PAGE)), Err(Errno::NXIO));
    fallocate(&file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, 7 * PAGE, 3 * PAGE).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.size(), metadata.blocks()), (8 * PAGE, 8 * 8), "allocated beyond the end");
    assert_eq!(fs::read(mount.path("f")).unwrap()[7 * PAGE as usize..], [0; PAGE as usize]);
    fallocate(&file, FallocateFlags::empty(), 0, 9 * PAGE).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 9 * PAGE);
    for unknown in [FallocateFlags::COLLAPSE_RANGE, FallocateFlags::INSERT_RANGE] {
        assert_eq!(fallocate(&file, unknown, 0, PAGE), Err(Errno::OPNOTSUPP));
    }
}

#[test]
fn a_sparse_file_takes_the_space_of_its_content() {
    if skipped("a_sparse_file") {
        return;
    }
    let mount = Mounted::new();
    let file = open(&mount, "f");
    file.set_len(1 << 40).unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 0);
    file.write_all_at(b"far away", (1 << 39) + 5).unwrap();
    assert_eq!((file.metadata().unwrap().size(), file.metadata().unwrap().blocks()), (1 << 40, 8));
    let mut read = [9; 14];
    file.read_exact_at(&mut read, (1 << 39) + 2).unwrap();
    assert_eq!(&read, b"\0\0\0far away\0\0\0");
    assert_eq!(seek(&file, SeekFrom::Data(0)), Ok(1 << 39));
    assert_eq!(seek(&file, SeekFrom::Hole(1 << 39)), Ok((1 << 39) + PAGE));
    let near = [7; 10];
    file.write_all_at(&near, 0).unwrap();
    file.set_len(5).unwrap();
    file.set_len(10).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), [7, 7, 7, 7, 7, 0, 0, 0, 0, 0], "what was cut does not come back");
}

#[test]
fn a_full_volume_says_so_and_has_room_again_after_a_removal() {
    if skipped("a_full_volume") {
        return;
    }
    let mount = Mounted::new();
    let file = open(&mount, "small");
    let refused = fallocate(&file, FallocateFlags::empty(), 0, 1 << 40);
    assert_eq!(refused, Err(Errno::NOSPC));
    let chunk = vec![3; 1 << 20];
    let large = File::create(mount.path("large")).unwrap();
    let mut written = 0;
    let full = loop {
        match large.write_all_at(&chunk, written) {
            Ok(()) => written += chunk.len() as u64,
            Err(error) => break error,
        }
        assert!(written <= CAPACITY_BYTES);
    };
    assert_eq!(full.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
    assert!(written >= CAPACITY_BYTES - (2 << 20), "{written}");
    drop(large);
    assert_eq!(fs::metadata(mount.path("large")).unwrap().size(), written);
    fs::remove_file(mount.path("large")).unwrap();
    mount.eventually_room(CAPACITY_BYTES / 2);
    file.write_all_at(&chunk, 0).unwrap();
    assert_eq!(fs::read(mount.path("small")).unwrap(), chunk);
}
