//! Names: what rename, unlink and link do to them and to files that are open.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

use crate::harness::{Mounted, skipped};

#[test]
fn a_rename_replaces_exchanges_or_refuses() {
    if skipped("a_rename_replaces") {
        return;
    }
    let mount = Mounted::new();
    fs::write(mount.path("a"), "a").unwrap();
    fs::write(mount.path("b"), "b").unwrap();
    let rename = |flags| renameat_with(CWD, mount.path("a"), CWD, mount.path("b"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(fs::read_to_string(mount.path("a")).unwrap(), "b");
    rename(RenameFlags::empty()).unwrap();
    assert_eq!(fs::read_to_string(mount.path("b")).unwrap(), "b");
    assert_eq!(fs::metadata(mount.path("a")).unwrap_err().raw_os_error(), Some(Errno::NOENT.raw_os_error()));
    fs::create_dir_all(mount.path("x/y/z")).unwrap();
    let into_itself = fs::rename(mount.path("x"), mount.path("x/y/z/x")).unwrap_err();
    assert_eq!(into_itself.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    fs::rename(mount.path("x/y"), mount.path("y")).unwrap();
    assert_eq!(fs::metadata(mount.path("x")).unwrap().nlink(), 2);
    assert!(fs::metadata(mount.path("y/z")).unwrap().is_dir());
    let above = fs::metadata(mount.path("y/..")).unwrap().ino();
    assert_eq!(above, fs::metadata(mount.path("")).unwrap().ino());
}

#[test]
fn a_file_that_is_open_stays_after_its_last_name() {
    if skipped("a_file_that_is_open_stays") {
        return;
    }
    let mount = Mounted::new();
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("f")).unwrap();
    file.write_all(b"before, ").unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    file.write_all(b"after").unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut read = String::new();
    file.read_to_string(&mut read).unwrap();
    assert_eq!(read, "before, after");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(mount.data().extents().len(), 1);
    // A file that another one is moved onto is such a file too.
    fs::write(mount.path("g"), "new").unwrap();
    let mut old = File::create_new(mount.path("h")).unwrap();
    fs::rename(mount.path("g"), mount.path("h")).unwrap();
    old.write_all(b"old").unwrap();
    assert_eq!(fs::read_to_string(mount.path("h")).unwrap(), "new");
    drop((file, old));
    fs::remove_file(mount.path("h")).unwrap();
    mount.eventually_empty();
}

#[test]
fn a_file_without_a_name_gets_one_or_goes() {
    if skipped("a_file_without_a_name") {
        return;
    }
    let mount = Mounted::new();
    const TMPFILE: i32 = 0o20_200_000;
    let open = || OpenOptions::new().read(true).write(true).custom_flags(TMPFILE).mode(0o640).open(mount.path("")).unwrap();
    let (mut kept, mut lost) = (open(), open());
    kept.write_all(b"kept").unwrap();
    lost.write_all(b"lost").unwrap();
    assert_eq!(kept.metadata().unwrap().nlink(), 0);
    linkat(&kept, "", CWD, mount.path("named"), AtFlags::EMPTY_PATH).unwrap();
    drop((kept, lost));
    assert_eq!(fs::read_to_string(mount.path("named")).unwrap(), "kept");
    let metadata = fs::metadata(mount.path("named")).unwrap();
    assert_eq!((metadata.nlink(), metadata.permissions().mode() & 0o777), (1, 0o640));
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 1);
    fs::remove_file(mount.path("named")).unwrap();
    mount.eventually_empty();
}

#[test]
fn a_removed_directory_that_is_in_use_is_empty_and_takes_nothing() {
    if skipped("a_removed_directory_that_is_in_use") {
        return;
    }
    let mount = Mounted::new();
    fs::create_dir(mount.path("d")).unwrap();
    let folder = File::open(mount.path("d")).unwrap();
    fs::remove_dir(mount.path("d")).unwrap();
    assert_eq!(folder.metadata().unwrap().nlink(), 0);
    let refused = rustix::fs::openat(&folder, "f", rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY, 0o644.into());
    assert_eq!(refused.unwrap_err(), Errno::NOENT);
}
