//! Extended attributes and access control lists.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::harness::{Mounted, lacks, run, skipped};

#[test]
fn attributes_are_set_listed_and_removed() {
    if skipped("attributes_are_set_listed_and_removed") {
        return;
    }
    let mount = Mounted::new();
    let path = mount.path("f");
    File::create(&path).unwrap();
    let set = |name: &str, value: &[u8], flags| setxattr(&path, name, value, flags);
    assert_eq!(set("user.a", b"1", XattrFlags::REPLACE), Err(Errno::NODATA));
    set("user.a", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
    set("user.b", &[7; 60_000], XattrFlags::empty()).unwrap();
    set("user.a", b"", XattrFlags::REPLACE).unwrap();
    let mut value = vec![0; 65_536];
    assert_eq!(getxattr(&path, "user.a", &mut value), Ok(0));
    assert_eq!(getxattr(&path, "user.b", &mut value), Ok(60_000));
    assert_eq!(value[..60_000], [7; 60_000]);
    assert_eq!(getxattr(&path, "user.b", &mut [0; 10]), Err(Errno::RANGE));
    let length = listxattr(&path, &mut value).unwrap();
    let mut names: Vec<&[u8]> = value[..length].split_inclusive(|byte| *byte == 0).collect();
    names.sort_unstable();
    assert_eq!(names, [&b"user.a\0"[..], b"user.b\0"]);
    removexattr(&path, "user.a").unwrap();
    assert_eq!(removexattr(&path, "user.a"), Err(Errno::NODATA));
    assert_eq!(getxattr(&path, "user.a", &mut value), Err(Errno::NODATA));
}

#[test]
fn access_lists_show_in_the_mode_and_are_inherited() {
    let name = "access_lists_show_in_the_mode";
    if skipped(name) || lacks(name, "setfacl") || lacks(name, "getfacl") {
        return;
    }
    let mount = Mounted::new();
    let (folder, file) = (mount.path("d"), mount.path("d/f"));
    fs::create_dir(&folder).unwrap();
    run("setfacl", &["-d", "-m", "u:1234:rwx,g::rx,m::rwx,o::-", folder.to_str().unwrap()]);
    File::create(&file).unwrap();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&file), 0o660, "the default list, not the umask");
    let list = || run("getfacl", &["-cpE", "--omit-header", file.to_str().unwrap()]);
    assert_eq!(list().trim(), "user::rw-\nuser:1234:rwx\ngroup::r-x\nmask::rw-\nother::---");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    assert_eq!(list().trim(), "user::rw-\nuser:1234:rwx\ngroup::r-x\nmask::r--\nother::---", "chmod changes the mask");
    run("setfacl", &["-m", "m::rwx", file.to_str().unwrap()]);
    assert_eq!(mode(&file), 0o670);
    run("setfacl", &["-b", file.to_str().unwrap()]);
    assert_eq!(mode(&file), 0o650, "the group's own entry is what remains");
    fs::create_dir(mount.path("d/e")).unwrap();
    let inherited = run("getfacl", &["-cpdE", "--omit-header", mount.path("d/e").to_str().unwrap()]);
    assert_eq!(inherited.trim(), "user::rwx\nuser:1234:rwx\ngroup::r-x\nmask::rwx\nother::---");
}

#[test]
fn a_set_group_id_directory_gives_its_group_on() {
    if skipped("a_set_group_id_directory") {
        return;
    }
    let mount = Mounted::new();
    let folder = mount.path("d");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, None, Some(4321)).unwrap();
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o2775)).unwrap();
    fs::create_dir(folder.join("e")).unwrap();
    File::create(folder.join("f")).unwrap();
    let below = fs::metadata(folder.join("e")).unwrap();
    assert_eq!((below.gid(), below.mode() & 0o2000), (4321, 0o2000));
    assert_eq!(fs::metadata(folder.join("f")).unwrap().gid(), 4321);
}

#[test]
fn a_program_that_is_changed_loses_its_privileges() {
    if skipped("a_program_that_is_changed") {
        return;
    }
    let mount = Mounted::new();
    let path = mount.path("program");
    fs::write(&path, "#!").unwrap();
    // Version 2 of the kernel's format: CAP_NET_RAW permitted and effective.
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    let has = || getxattr(&path, "security.capability", &mut [0; 64]).is_ok();
    let set = || setxattr(&path, "security.capability", &capability, XattrFlags::empty()).unwrap();
    set();
    assert!(has());
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"/bin/true").unwrap();
    assert!(!has(), "a write");
    set();
    std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
    assert!(!has(), "another owner");
    set();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1).unwrap();
    assert!(!has(), "a truncation");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o6755)).unwrap();
    std::os::unix::fs::chown(&path, Some(4321), None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o755);
}
