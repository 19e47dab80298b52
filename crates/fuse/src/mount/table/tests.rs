use super::*;

const TABLE: &[u8] = b"22 1 254:0 / / rw - ext4 /dev/vda rw
36 22 0:47 / /mnt/a\\040b rw,nosuid shared:1 master:2 - fuse.trilith trilith rw,user_id=0
37 22 0:48 / /mnt/c rw - fuse.trilith trilith rw
38 22 0:49 / /mnt/c rw - fuse.other other rw
39 22 0:50 / /mnt/d rw - fuseblk /dev/sda rw
";

#[test]
fn a_mount_is_found_by_its_point() {
    assert_eq!(connection_of(TABLE, Path::new("/mnt/a b")), Some(47));
    assert_eq!(connection_of(TABLE, Path::new("/mnt/c")), Some(49), "the one on top");
}

#[test]
fn what_is_no_fuse_mount_is_not_found() {
    assert_eq!(connection_of(TABLE, Path::new("/")), None);
    assert_eq!(connection_of(TABLE, Path::new("/mnt/d")), None, "another protocol");
    assert_eq!(connection_of(TABLE, Path::new("/mnt")), None);
    assert_eq!(connection_of(b"torn 1 2", Path::new("/mnt")), None);
}
