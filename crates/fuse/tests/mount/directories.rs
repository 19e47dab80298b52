//! Big directories.

use std::collections::HashSet;
use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use fuse::init::Readdirplus;
use fuse::{Capabilities, SessionOptions};

use crate::harness::{Mounted, mount_options, options, skipped};
use crate::memfs::MemFs;

const ENTRIES: usize = 10_000;

fn filled(readdirplus: Readdirplus) -> Mounted {
    let options = options(4);
    let capabilities = Capabilities { readdirplus, ..options.capabilities };
    let file_system = Arc::new(MemFs::new(Duration::from_secs(3600)));
    let mount = Mounted::with(file_system, &mount_options(), &SessionOptions { capabilities, ..options });
    fs::create_dir(mount.path("d")).unwrap();
    for index in 0..ENTRIES {
        File::create(mount.path(&format!("d/{index}"))).unwrap();
    }
    mount
}

fn delete_while_listing(readdirplus: Readdirplus) {
    let mount = filled(readdirplus);
    let mut seen = HashSet::new();
    for entry in fs::read_dir(mount.path("d")).unwrap() {
        let entry = entry.unwrap();
        assert!(entry.file_type().unwrap().is_file());
        assert!(seen.insert(entry.file_name()), "{entry:?} twice");
        fs::remove_file(entry.path()).unwrap();
    }
    assert_eq!(seen.len(), ENTRIES, "nothing is skipped");
    fs::remove_dir(mount.path("d")).unwrap();
}

#[test]
fn entries_are_deleted_while_they_are_listed() {
    if !skipped("entries_are_deleted_while_they_are_listed") {
        delete_while_listing(Readdirplus::Never);
    }
}

#[test]
fn entries_are_deleted_while_they_are_listed_with_their_attributes() {
    if !skipped("entries_are_deleted_while_they_are_listed_with_their_attributes") {
        delete_while_listing(Readdirplus::Always);
    }
}

#[test]
fn names_that_change_while_they_are_listed_do_not_make_the_list_endless() {
    if skipped("names_that_change_while_they_are_listed") {
        return;
    }
    let mount = filled(Readdirplus::Auto);
    let mut listed = 0;
    for entry in fs::read_dir(mount.path("d")).unwrap().take(3 * ENTRIES) {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with('r') {
            fs::rename(entry.path(), mount.path(&format!("d/r{name}"))).unwrap();
        }
        listed += 1;
    }
    assert!((ENTRIES..=2 * ENTRIES).contains(&listed), "{listed}");
    let names: HashSet<_> = fs::read_dir(mount.path("d")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), ENTRIES);
}
