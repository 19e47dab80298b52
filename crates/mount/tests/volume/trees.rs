//! Whole trees.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::harness::{Mounted, pattern, run, skipped};

/// Files of sizes around the borders of blocks and requests, folders within folders, links of both kinds.
fn make_tree(root: &Path) {
    let sizes = [0, 1, 100, 4095, 4096, 4097, 65_536, 131_073, (1 << 20) - 1, 1 << 20, (3 << 20) + 17];
    for folder in ["", "a", "a/b", "a/b/c", "d"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        for size in sizes {
            fs::write(root.join(folder).join(format!("file of {size}")), pattern(size, folder.len() as u64)).unwrap();
        }
    }
    symlink("b/c/file of 100", root.join("a/link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    fs::hard_link(root.join("a/file of 4097"), root.join("d/the same file")).unwrap();
}

#[test]
fn a_tree_is_copied_in_and_out_byte_for_byte() {
    if skipped("a_tree_is_copied") {
        return;
    }
    let (mount, outside) = (Mounted::new(), TempDir::new().unwrap());
    let (first, last) = (outside.path().join("first"), outside.path().join("last"));
    make_tree(&first);
    let inside = mount.path("tree");
    run("cp", &["-a", first.to_str().unwrap(), inside.to_str().unwrap()]);
    run("cp", &["-a", inside.to_str().unwrap(), last.to_str().unwrap()]);
    for copy in [&inside, &last] {
        run("diff", &["-r", "--no-dereference", first.to_str().unwrap(), copy.to_str().unwrap()]);
        let (one, other) = (copy.join("a/file of 4097"), copy.join("d/the same file"));
        assert_eq!(fs::metadata(&one).unwrap().ino(), fs::metadata(&other).unwrap().ino());
        assert_eq!(fs::metadata(&one).unwrap().nlink(), 2);
        let times = |root: &Path| fs::metadata(root.join("a/b/file of 100")).unwrap().modified().unwrap();
        assert_eq!(times(copy), times(&first), "cp -a sets times to the nanosecond");
    }
    assert_eq!(fs::read_link(inside.join("dangling")).unwrap(), Path::new("nowhere"));
    assert_eq!(fs::metadata(inside.join("a")).unwrap().nlink(), 3, "itself, its name and one folder");
    run("rm", &["-r", inside.to_str().unwrap()]);
    mount.eventually_empty();
}

#[test]
fn a_tree_is_read_by_the_next_mount_of_the_volume() {
    if skipped("a_tree_is_read_by_the_next_mount") {
        return;
    }
    let mount = Mounted::new();
    let outside = TempDir::new().unwrap();
    make_tree(outside.path());
    run("cp", &["-a", outside.path().to_str().unwrap(), mount.path("tree").to_str().unwrap()]);
    let mount = mount.again();
    run("diff", &["-r", "--no-dereference", outside.path().to_str().unwrap(), mount.path("tree").to_str().unwrap()]);
}
