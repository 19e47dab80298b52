use super::*;

/// `u::rwx,u:1000:rw-,g::r-x,m::rwx,o::r--` as the kernel writes it.
fn extended() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(USER_OWNER, 7, u32::MAX), (0x02, 6, 1000), (GROUP_OWNER, 5, u32::MAX), (MASK, 7, u32::MAX), (OTHER, 4, u32::MAX)];
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_list_is_parsed_and_written() {
    let acl = Acl::parse(&extended()).unwrap();
    assert!(acl.is_extended());
    assert_eq!(acl.mode(), 0o774, "the mask stands for the group");
    assert_eq!(acl.to_bytes(), extended());
    for bad in [&b""[..], b"\x01\0\0\0", b"\x02\0\0\0\0\0"] {
        assert_eq!(Acl::parse(bad), None);
    }
}

#[test]
fn chmod_changes_the_mask_and_not_the_group() {
    let mut acl = Acl::parse(&extended()).unwrap();
    acl.set_mode(0o640);
    assert_eq!(acl.mode(), 0o640);
    assert_eq!(acl.0[2].permissions, 5);
    assert_eq!(acl.0[1].permissions, 6);
}

#[test]
fn a_new_file_has_at_most_what_its_creator_asks_for() {
    let default = Acl::parse(&extended()).unwrap();
    let acl = default.inherited(0o666);
    assert_eq!(acl.mode(), 0o664);
    assert_eq!(default.mode(), 0o774);
}
