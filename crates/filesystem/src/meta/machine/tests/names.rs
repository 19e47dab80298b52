//! Names, directories, renames.

use super::*;
use std::collections::BTreeSet;

#[test]
fn links_of_directories_count_their_subdirectories() {
    let mut tree = Tree::new();
    let a = tree.make(Ino::ROOT, "a", Kind::Directory).unwrap();
    let b = tree.make(a, "b", Kind::Directory).unwrap();
    tree.make(a, "file", Kind::File).unwrap();
    let nlink = |tree: &Tree, ino| tree.attributes(ino).unwrap().nlink;
    assert_eq!((nlink(&tree, Ino::ROOT), nlink(&tree, a), nlink(&tree, b)), (3, 3, 2));
    tree.rename((a, "b"), (Ino::ROOT, "b"), RenameHow::Replace).unwrap();
    assert_eq!((nlink(&tree, Ino::ROOT), nlink(&tree, a)), (4, 2));
    assert_eq!(tree.run(Command::Rmdir { parent: Ino::ROOT, name: "a".into() }), Err(MetaError::NotEmpty));
    tree.run(Command::Rmdir { parent: Ino::ROOT, name: "b".into() }).unwrap();
    assert_eq!(nlink(&tree, Ino::ROOT), 3);
}

#[test]
fn names_are_checked() {
    let mut tree = Tree::new();
    for name in ["", ".", "..", "a/b", "a\0", &"x".repeat(256)] {
        assert_eq!(tree.make(Ino::ROOT, name, Kind::File), Err(MetaError::NameLength), "{name:?}");
    }
    let file = tree.make(Ino::ROOT, &"x".repeat(255), Kind::File).unwrap();
    assert_eq!(tree.make(file, "below", Kind::File), Err(MetaError::NotDirectory));
    assert_eq!(tree.make(Ino(99), "below", Kind::File), Err(MetaError::Stale));
    assert_eq!(tree.make(Ino::ROOT, &"x".repeat(255), Kind::Directory), Err(MetaError::Exists));
}

#[test]
fn a_rename_replaces_what_it_may() {
    let mut tree = Tree::new();
    let directory = tree.make(Ino::ROOT, "directory", Kind::Directory).unwrap();
    let full = tree.make(Ino::ROOT, "full", Kind::Directory).unwrap();
    tree.make(full, "x", Kind::File).unwrap();
    let file = tree.make(Ino::ROOT, "file", Kind::File).unwrap();
    let other = tree.make(Ino::ROOT, "other", Kind::File).unwrap();
    let replace = RenameHow::Replace;
    let root = Ino::ROOT;
    assert_eq!(tree.rename((root, "file"), (root, "directory"), replace), Err(MetaError::IsDirectory));
    assert_eq!(tree.rename((root, "directory"), (root, "file"), replace), Err(MetaError::NotDirectory));
    assert_eq!(tree.rename((root, "directory"), (root, "full"), replace), Err(MetaError::NotEmpty));
    assert_eq!(tree.rename((root, "file"), (root, "other"), RenameHow::NoReplace), Err(MetaError::Exists));
    assert_eq!(tree.rename((root, "file"), (root, "absent"), RenameHow::Exchange), Err(MetaError::NotFound));
    assert_eq!(tree.rename((root, "full"), (full, "below"), replace), Err(MetaError::Below));
    let Done::Renamed(Some(lost)) = tree.rename((root, "file"), (root, "other"), replace).unwrap() else { panic!() };
    assert_eq!((lost.ino, lost.nlink), (other, 0));
    assert_eq!(tree.lookup(root, "other").unwrap().ino, file);
    assert_eq!(tree.lookup(root, "file"), Err(MetaError::NotFound));
    tree.rename((root, "other"), (root, "full"), RenameHow::Exchange).unwrap();
    assert_eq!((tree.lookup(root, "full").unwrap().ino, tree.lookup(root, "other").unwrap().ino), (file, full));
    // An empty directory gives way to another.
    tree.rename((root, "other"), (root, "directory"), replace).unwrap();
    assert_eq!(tree.attributes(directory).unwrap().nlink, 0);
    assert_eq!(tree.attributes(root).unwrap().nlink, 3);
}

/// Two names of one inode: rename does nothing, as POSIX wants.
#[test]
fn a_rename_onto_another_name_of_the_same_inode_does_nothing() {
    let mut tree = Tree::new();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    tree.run(Command::Link { ino, parent: Ino::ROOT, name: "b".into() }).unwrap();
    assert_eq!(tree.rename((Ino::ROOT, "a"), (Ino::ROOT, "b"), RenameHow::Replace), Ok(Done::Renamed(None)));
    assert_eq!(tree.listed(Ino::ROOT, 0, 10).len(), 2);
}

#[test]
fn nothing_is_made_in_a_removed_directory() {
    let mut tree = Tree::new();
    let gone = tree.make(Ino::ROOT, "gone", Kind::Directory).unwrap();
    let file = tree.make(Ino::ROOT, "file", Kind::File).unwrap();
    tree.run(Command::Rmdir { parent: Ino::ROOT, name: "gone".into() }).unwrap();
    assert_eq!(tree.make(gone, "x", Kind::File), Err(MetaError::NotFound));
    assert_eq!(tree.run(Command::Link { ino: file, parent: gone, name: "x".into() }), Err(MetaError::NotFound));
    assert_eq!(tree.rename((Ino::ROOT, "file"), (gone, "x"), RenameHow::Replace), Err(MetaError::NotFound));
    let unnamed = Command::MakeUnnamed { parent: gone, new: new(Kind::File) };
    assert_eq!(tree.run(unnamed), Err(MetaError::NotFound));
}

/// Others skip names while files are removed (juicefs#7223), or list renamed files for ever.
#[test]
fn a_listing_has_everything_that_stays_and_ends() {
    let mut tree = Tree::new();
    let names: BTreeSet<String> = (0..500).map(|number| format!("name-{number}")).collect();
    for name in &names {
        tree.make(Ino::ROOT, name, Kind::File).unwrap();
    }
    let (mut seen, mut after, mut round) = (Vec::new(), 0, 0);
    loop {
        let page = tree.listed(Ino::ROOT, after, 7);
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (_, name) in &page {
            seen.push(name.clone());
            // What was just listed is removed, or gets another name.
            if round % 2 == 0 {
                tree.run(Command::Unlink { parent: Ino::ROOT, name: name.clone().into() }).unwrap();
            } else {
                tree.rename((Ino::ROOT, name), (Ino::ROOT, &format!("{name}-moved")), RenameHow::Replace).unwrap();
            }
        }
        round += 1;
        assert!(round < 1000, "a listing without end");
    }
    let listed: BTreeSet<String> = seen.iter().cloned().collect();
    assert_eq!(listed.intersection(&names).count(), names.len(), "nothing that stayed was skipped");
    let twice = seen.iter().filter(|name| names.contains(*name)).count();
    assert_eq!(twice, names.len(), "nothing was listed twice");
}

#[test]
fn a_setgid_directory_hands_its_group_on() {
    let mut tree = Tree::new();
    let directory = NewInode { mode: 0o2755, gid: 50, ..new(Kind::Directory) };
    let Ok(Done::Inode(made)) = tree.run(Command::Make { parent: Ino::ROOT, name: "d".into(), new: directory }) else {
        panic!()
    };
    let file = tree.make(made.ino, "file", Kind::File).unwrap();
    let below = tree.make(made.ino, "below", Kind::Directory).unwrap();
    assert_eq!((tree.attributes(file).unwrap().gid, tree.attributes(file).unwrap().mode), (50, 0o644));
    assert_eq!((tree.attributes(below).unwrap().gid, tree.attributes(below).unwrap().mode), (50, 0o2644));
}
