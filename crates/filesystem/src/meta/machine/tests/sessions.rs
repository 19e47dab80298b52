//! Commands that come twice, orphans, sessions that end.

use super::*;
use crate::meta::limits::MAX_REMEMBERED;

#[test]
fn a_command_that_comes_twice_gets_its_first_reply() {
    let mut tree = Tree::new();
    let make = tree.envelope(Command::Make { parent: Ino::ROOT, name: "a".into(), new: new(Kind::Directory) });
    let first = tree.machine.carry_out(&make);
    assert!(first.is_ok());
    assert_eq!(tree.machine.carry_out(&make), first, "not that the name exists");
    let remove = tree.envelope(Command::Rmdir { parent: Ino::ROOT, name: "a".into() });
    let first = tree.machine.carry_out(&remove);
    assert_eq!(tree.machine.carry_out(&remove), first, "not that there is no such name");
    // The client has heard its reply: a copy that comes later changes nothing.
    assert_eq!(tree.machine.carry_out(&make), Err(MetaError::Stale));
    assert_eq!(tree.lookup(Ino::ROOT, "a"), Err(MetaError::NotFound));
}

#[test]
fn a_session_that_ended_is_refused() {
    let mut tree = Tree::new();
    tree.run(Command::CloseSession).unwrap();
    assert_eq!(tree.make(Ino::ROOT, "a", Kind::File), Err(MetaError::NoSession));
}

#[test]
fn an_orphan_stays_while_a_session_may_have_it_open() {
    let mut tree = Tree::new();
    let other = MetaSession(8);
    let envelope =
        |command| Envelope { session: other, sequence: 1, answered_below: 0, now: Time::default(), locks_lost: 0, command };
    tree.machine.carry_out(&envelope(Command::OpenSession { is_exclusive: false })).unwrap();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    tree.run(Command::Unlink { parent: Ino::ROOT, name: "a".into() }).unwrap();
    tree.run(Command::NotOpen { inos: vec![ino] }).unwrap();
    assert!(tree.attributes(ino).is_ok(), "the other session may have it open");
    let orphans = |tree: &Tree, session| tree.machine.query(&Query::Orphans { session });
    assert_eq!(orphans(&tree, SESSION), Ok(Found::Inos(Vec::new())));
    assert_eq!(orphans(&tree, other), Ok(Found::Inos(vec![ino])));
    tree.machine.carry_out(&envelope(Command::CloseSession)).unwrap();
    assert_eq!(tree.attributes(ino), Err(MetaError::Stale));
}

#[test]
fn a_file_without_a_name_gets_one_or_goes_with_its_session() {
    let mut tree = Tree::new();
    let mut unnamed = || match tree.run(Command::MakeUnnamed { parent: Ino::ROOT, new: new(Kind::File) }) {
        Ok(Done::Inode(attributes)) => attributes.ino,
        other => panic!("{other:?}"),
    };
    let (kept, lost) = (unnamed(), unnamed());
    tree.run(Command::Link { ino: kept, parent: Ino::ROOT, name: "kept".into() }).unwrap();
    tree.run(Command::NotOpen { inos: vec![kept] }).unwrap();
    assert_eq!(tree.attributes(kept).unwrap().nlink, 1);
    tree.run(Command::CloseSession).unwrap();
    assert!(tree.attributes(kept).is_ok());
    assert_eq!(tree.attributes(lost), Err(MetaError::Stale));
}

#[test]
fn attributes_say_whether_there_are_several_sessions() {
    let mut tree = Tree::new();
    let is_shared = |tree: &Tree| tree.attributes(Ino::ROOT).unwrap().is_shared;
    assert!(!is_shared(&tree));
    let as_other = |tree: &mut Tree, command| {
        let envelope = Envelope { session: MetaSession(8), ..tree.envelope(command) };
        tree.machine.carry_out(&envelope).unwrap();
    };
    as_other(&mut tree, Command::OpenSession { is_exclusive: false });
    assert!(is_shared(&tree));
    as_other(&mut tree, Command::CloseSession);
    assert!(!is_shared(&tree));
}

/// Caught: the command that says that all replies were heard was refused, and so was each after it.
#[test]
fn a_session_whose_replies_were_heard_goes_on() {
    let mut tree = Tree::new();
    let empty = Command::NotOpen { inos: Vec::new() };
    for _ in 0..MAX_REMEMBERED {
        let envelope = Envelope { answered_below: 0, ..tree.envelope(empty.clone()) };
        tree.machine.carry_out(&envelope).unwrap();
    }
    // The leader ends a session with all of its replies remembered, and can say so twice.
    let mut ended = tree.machine.clone();
    for _ in 0..2 {
        let close = Envelope { sequence: u64::MAX, answered_below: 0, ..tree.envelope(Command::CloseSession) };
        assert_eq!(ended.carry_out(&close), Ok(Done::Done));
    }
    assert_eq!(ended.sessions().count(), 0);
    let deaf = Envelope { answered_below: 0, ..tree.envelope(empty.clone()) };
    assert_eq!(tree.machine.carry_out(&deaf), Err(MetaError::TooManyCommands));
    assert_eq!(tree.run(empty), Ok(Done::Done));
}

#[test]
fn an_exclusive_session_is_the_only_one() {
    let mut tree = Tree::new();
    let other = MetaSession(8);
    let run_as = |tree: &mut Tree, session, command| {
        let envelope = Envelope { session, ..tree.envelope(command) };
        tree.machine.carry_out(&envelope)
    };
    let open = |is_exclusive| Command::OpenSession { is_exclusive };
    assert_eq!(run_as(&mut tree, other, open(true)), Err(MetaError::InUse));
    tree.run(Command::CloseSession).unwrap();
    assert_eq!(run_as(&mut tree, other, open(true)), Ok(Done::Opened { is_shared: false }));
    for is_exclusive in [false, true] {
        assert_eq!(tree.run(open(is_exclusive)), Err(MetaError::HeldAlone));
        assert_eq!(run_as(&mut tree, other, open(true)), Ok(Done::Opened { is_shared: false }), "it is open already");
    }
    assert_eq!(tree.make(Ino::ROOT, "a", Kind::File), Err(MetaError::NoSession));
    run_as(&mut tree, other, Command::CloseSession).unwrap();
    assert_eq!(tree.run(open(false)), Ok(Done::Opened { is_shared: false }));
}
