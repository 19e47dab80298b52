use super::*;

fn options() -> MountOptions {
    MountOptions::default()
}

#[test]
fn names_that_would_be_options_are_refused() {
    for source in ["a,allow_other", "a\\,b", "", "a\nb"] {
        let refused = MountOptions { source: source.to_owned(), ..options() }.check();
        assert!(matches!(&refused, Err(MountError::Name { what: "source", value }) if value == source), "{refused:?}");
    }
    let refused = MountOptions { subtype: "x,y".to_owned(), ..options() }.check();
    assert!(matches!(refused, Err(MountError::Name { what: "subtype", .. })), "{refused:?}");
    MountOptions { source: "node-1:/data (volume a)".to_owned(), ..options() }.check().unwrap();
}

#[test]
fn the_kernel_always_checks_permissions() {
    assert_eq!(options().common(), ["default_permissions"]);
    let more = MountOptions { allow_other: true, max_read_bytes: Some(4096), ..options() };
    assert_eq!(more.common(), ["default_permissions", "allow_other", "max_read=4096"]);
}

#[test]
fn flags_follow_the_options() {
    assert_eq!(options().flags(), MountFlags::NOSUID | MountFlags::NODEV);
    let open = MountOptions { nosuid: false, nodev: false, read_only: true, ..options() };
    assert_eq!(open.flags(), MountFlags::RDONLY);
}

#[test]
fn a_mount_point_must_be_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let absent = Mount::new(&folder.path().join("absent"), &options()).map(drop);
    assert!(matches!(absent, Err(MountError::Point { .. })), "{absent:?}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = Mount::new(&file, &options()).map(drop);
    assert!(matches!(refused, Err(MountError::NotADirectory { .. })), "{refused:?}");
}
