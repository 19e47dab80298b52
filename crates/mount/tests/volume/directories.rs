//! Large directories.

use std::collections::BTreeSet;
use std::fs::{self, File};

use crate::harness::{Mounted, skipped};

const ENTRIES: usize = 20_000;

#[test]
fn a_large_directory_is_listed_while_half_of_it_is_removed() {
    if skipped("a_large_directory") {
        return;
    }
    let mount = Mounted::new();
    let folder = mount.path("large");
    fs::create_dir(&folder).unwrap();
    for index in 0..ENTRIES {
        File::create(folder.join(format!("file-{index}"))).unwrap();
    }
    let mut seen = BTreeSet::new();
    for (at, entry) in fs::read_dir(&folder).unwrap().enumerate() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(seen.insert(name.clone()), "{name} is listed twice");
        // Odd ones are removed as they come, in bursts that are not the kernel's pages.
        let index: usize = name.strip_prefix("file-").unwrap().parse().unwrap();
        if index % 2 == 1 && at % 7 != 0 {
            fs::remove_file(folder.join(&name)).unwrap();
        }
    }
    assert_eq!(seen.len(), ENTRIES, "each that stayed until it was reached is listed");
    let left = fs::read_dir(&folder).unwrap().count();
    assert!(left < ENTRIES * 2 / 3, "{left}");
    let refused = fs::remove_dir(&folder).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::NOTEMPTY.raw_os_error()));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 0);
}

#[test]
fn a_listing_ends_while_names_change() {
    if skipped("a_listing_ends_while_names_change") {
        return;
    }
    let mount = Mounted::new();
    const STAYING: usize = 3_000;
    for index in 0..STAYING {
        File::create(mount.path(&format!("stays-{index}"))).unwrap();
    }
    File::create(mount.path("moves-0")).unwrap();
    let mut stayed = BTreeSet::new();
    let mut listed = 0;
    for (round, entry) in fs::read_dir(mount.path("")).unwrap().enumerate() {
        fs::rename(mount.path(&format!("moves-{round}")), mount.path(&format!("moves-{}", round + 1))).unwrap();
        let name = entry.unwrap().file_name().into_string().unwrap();
        listed += 1;
        if name.starts_with("stays-") {
            assert!(stayed.insert(name.clone()), "{name} is listed twice");
        }
        assert!(listed < 3 * STAYING, "the listing does not end");
    }
    assert_eq!(stayed.len(), STAYING);
}
