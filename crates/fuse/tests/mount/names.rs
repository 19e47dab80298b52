//! Names, modes, attributes and what hangs on them.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags, XattrFlags, getxattr, linkat, listxattr, open, removexattr,
    renameat_with, setxattr, statx,
};
use rustix::io::Errno;

use crate::harness::{Mounted, lacks, run, skipped};
use crate::memfs::MemFs;

fn mounted() -> Mounted {
    Mounted::new(Arc::new(MemFs::new(Duration::from_secs(3600))))
}

#[test]
fn a_file_without_a_name_gets_one_by_a_link() {
    if skipped("a_file_without_a_name_gets_one_by_a_link") {
        return;
    }
    let mount = mounted();
    let mut file = File::from(open(mount.path(""), OFlags::TMPFILE | OFlags::RDWR, Mode::from(0o600)).unwrap());
    file.write_all(b"nameless").unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(mount.path("")).unwrap().count(), 0);
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, descriptor, CWD, mount.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(fs::read(mount.path("named")).unwrap(), b"nameless");
    assert_eq!(file.metadata().unwrap().nlink(), 1);
}

#[test]
fn renames_exchange_and_do_not_replace() {
    if skipped("renames_exchange_and_do_not_replace") {
        return;
    }
    let mount = mounted();
    let (a, b) = (mount.path("a"), mount.path("b"));
    fs::write(&a, "a").unwrap();
    fs::create_dir(&b).unwrap();
    assert_eq!(renameat_with(CWD, &a, CWD, &b, RenameFlags::NOREPLACE), Err(Errno::EXIST));
    renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
    assert!(a.is_dir());
    assert_eq!(fs::read(&b).unwrap(), b"a");
    renameat_with(CWD, &b, CWD, mount.path("c"), RenameFlags::NOREPLACE).unwrap();
    assert_eq!(fs::read(mount.path("c")).unwrap(), b"a");
    assert_eq!(renameat_with(CWD, &b, CWD, &a, RenameFlags::EXCHANGE), Err(Errno::NOENT));
}

#[test]
fn an_unlinked_file_stays_while_it_is_open() {
    if skipped("an_unlinked_file_stays_while_it_is_open") {
        return;
    }
    let mount = mounted();
    fs::write(mount.path("f"), "content").unwrap();
    let mut file = File::open(mount.path("f")).unwrap();
    fs::remove_file(mount.path("f")).unwrap();
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!((content.as_str(), file.metadata().unwrap().nlink()), ("content", 0));
}

#[test]
fn statx_tells_when_a_file_was_created() {
    if skipped("statx_tells_when_a_file_was_created") {
        return;
    }
    let mount = mounted();
    fs::write(mount.path("f"), "1234").unwrap();
    let found = statx(CWD, mount.path("f"), AtFlags::empty(), StatxFlags::ALL).unwrap();
    assert_eq!(found.stx_mask & StatxFlags::BTIME.bits(), StatxFlags::BTIME.bits());
    assert_eq!((found.stx_size, found.stx_nlink), (4, 1));
    assert!(found.stx_btime.tv_sec > 0 && found.stx_btime.tv_sec <= found.stx_mtime.tv_sec);
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    if skipped("extended_attributes_are_set_listed_and_removed") {
        return;
    }
    let mount = mounted();
    let file = mount.path("f");
    fs::write(&file, "").unwrap();
    setxattr(&file, "user.one", b"value", XattrFlags::CREATE).unwrap();
    assert_eq!(setxattr(&file, "user.one", b"other", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(setxattr(&file, "user.two", b"other", XattrFlags::REPLACE), Err(Errno::NODATA));
    let mut buffer = [0; 100];
    if !lacks("extended_attributes: the question for a size", "getfattr") {
        let name = file.to_str().unwrap();
        assert_eq!(run("getfattr", &["--absolute-names", "--only-values", "-n", "user.one", name]), "value");
    }
    assert_eq!(getxattr(&file, "user.one", &mut buffer[..4]), Err(Errno::RANGE));
    assert_eq!(getxattr(&file, "user.one", &mut buffer), Ok(5));
    assert_eq!(&buffer[..5], b"value");
    assert_eq!(listxattr(&file, &mut buffer), Ok(9));
    assert_eq!(&buffer[..9], b"user.one\0");
    removexattr(&file, "user.one").unwrap();
    assert_eq!(getxattr(&file, "user.one", &mut buffer), Err(Errno::NODATA));
    let large = vec![7; 60_000];
    setxattr(&file, "user.large", &large, XattrFlags::empty()).unwrap();
    let mut read = vec![0; 65_536];
    assert_eq!(getxattr(&file, "user.large", &mut read), Ok(60_000));
    assert_eq!(read[..60_000], large);
}

#[test]
fn access_control_lists_are_kept_inherited_and_obeyed() {
    if skipped("access_control_lists") || lacks("access_control_lists", "setfacl") || lacks("access_control_lists", "setpriv") {
        return;
    }
    let mount = mounted();
    fs::set_permissions(mount.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let file = mount.path("f");
    fs::write(&file, "secret").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let name = file.to_str().unwrap();
    let as_user = |name: &str| {
        let arguments = ["--reuid=1234", "--regid=1234", "--clear-groups", "cat", name];
        crate::harness::try_run("setpriv", &arguments).status.success()
    };
    assert!(!as_user(name));
    run("setfacl", &["-m", "u:1234:r", name]);
    assert!(as_user(name), "the list lets it");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640, "the mode's group is the mask");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!as_user(name), "chmod cut the mask");
    let folder = mount.path("d");
    fs::create_dir(&folder).unwrap();
    run("setfacl", &["-d", "-m", "u:1234:rw,o::-", folder.to_str().unwrap()]);
    fs::write(folder.join("inherits"), "").unwrap();
    let listed = run("getfacl", &["-n", "-p", "-c", folder.join("inherits").to_str().unwrap()]);
    assert!(listed.contains("user:1234:rw-") && listed.contains("other::---"), "{listed}");
    fs::create_dir(folder.join("below")).unwrap();
    let listed = run("getfacl", &["-n", "-p", "-c", "-d", folder.join("below").to_str().unwrap()]);
    assert!(listed.contains("user:1234:rw-"), "{listed}");
}

#[test]
fn a_write_by_others_takes_set_user_id_away() {
    if skipped("a_write_by_others_takes_set_user_id_away") || lacks("a_write_by_others", "setpriv") {
        return;
    }
    let mount = mounted();
    fs::set_permissions(mount.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    let file = mount.path("f");
    fs::write(&file, "program").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6777)).unwrap();
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"!").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o6777, "root may");
    let script = format!("echo more >> {}", file.display());
    run("setpriv", &["--reuid=1234", "--regid=1234", "--clear-groups", "sh", "-c", &script]);
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o777);
}

#[test]
fn exclusive_creation_and_the_umask() {
    if skipped("exclusive_creation_and_the_umask") {
        return;
    }
    let mount = mounted();
    let mut create = OpenOptions::new();
    create.write(true).create_new(true).mode(0o666);
    create.open(mount.path("f")).unwrap();
    assert_eq!(create.open(mount.path("f")).map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let script = format!("umask 027; : > {0}/masked; mkdir {0}/folder", mount.path("").display());
    run("sh", &["-c", &script]);
    assert_eq!(fs::metadata(mount.path("masked")).unwrap().mode() & 0o777, 0o640);
    assert_eq!(fs::metadata(mount.path("folder")).unwrap().mode() & 0o777, 0o750);
    assert_eq!(fs::metadata(mount.path("x".repeat(256).as_str())).unwrap_err().raw_os_error(), Some(36), "ENAMETOOLONG");
}
