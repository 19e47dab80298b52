//! Locks: single ones, and random ones against a map that says for each byte which owner has locked it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::meta::limits::MAX_LOCKS_OF_SESSION;
use crate::meta::{AttributeChange, Lock, LockFamily, LockOwner, LockRange};

const OTHER: MetaSession = MetaSession(8);

fn owner(number: u64) -> LockOwner {
    LockOwner { family: LockFamily::Fcntl, number }
}

fn lock(number: u64, first: u64, last: u64, is_exclusive: bool) -> Lock {
    Lock { owner: owner(number), range: LockRange { first, last }, is_exclusive, pid: 1 }
}

/// A tree with a file, and two sessions.
fn two_sessions() -> (Tree, Ino) {
    let mut tree = Tree::new();
    run_as(&mut tree, OTHER, Command::OpenSession { is_exclusive: false }).unwrap();
    let ino = tree.make(Ino::ROOT, "a", Kind::File).unwrap();
    (tree, ino)
}

fn run_as(tree: &mut Tree, session: MetaSession, command: Command) -> Reply {
    let envelope = Envelope { session, ..tree.envelope(command) };
    tree.machine.carry_out(&envelope)
}

fn in_the_way(tree: &Tree, ino: Ino, session: MetaSession, lock: Lock) -> Option<Lock> {
    let Ok(Found::Lock(found)) = tree.machine.query(&Query::LockInTheWay { ino, session, lock }) else { panic!() };
    found.map(|(_, lock)| lock)
}

fn locks_lost(tree: &Tree, session: MetaSession) -> u64 {
    let Ok(Found::Lease { locks_lost, .. }) = tree.machine.query(&Query::Lease { session }) else { panic!() };
    locks_lost
}

#[test]
fn the_same_number_in_another_session_is_another_owner() {
    let (mut tree, ino) = two_sessions();
    tree.run(Command::Lock { ino, lock: lock(1, 0, 9, true) }).unwrap();
    let wanted = lock(1, 9, 9, false);
    assert_eq!(run_as(&mut tree, OTHER, Command::Lock { ino, lock: wanted }), Err(MetaError::Locked));
    assert_eq!(in_the_way(&tree, ino, OTHER, wanted), Some(Lock { pid: 0, ..lock(1, 0, 9, true) }), "no process of there");
    assert_eq!(in_the_way(&tree, ino, SESSION, lock(2, 9, 9, false)), Some(lock(1, 0, 9, true)));
    let flock = Lock { owner: LockOwner { family: LockFamily::Flock, number: 1 }, ..lock(1, 0, u64::MAX, true) };
    run_as(&mut tree, OTHER, Command::Lock { ino, lock: flock }).unwrap();
    tree.run(Command::Unlock { ino, owner: owner(1), range: LockRange { first: 9, last: 20 } }).unwrap();
    run_as(&mut tree, OTHER, Command::Lock { ino, lock: wanted }).unwrap();
}

#[test]
fn locks_go_with_their_session_and_their_file() {
    let (mut tree, ino) = two_sessions();
    let gone = tree.make(Ino::ROOT, "b", Kind::File).unwrap();
    for ino in [ino, gone] {
        run_as(&mut tree, OTHER, Command::Lock { ino, lock: lock(1, 0, 9, true) }).unwrap();
    }
    tree.run(Command::Unlink { parent: Ino::ROOT, name: "b".into() }).unwrap();
    for session in [SESSION, OTHER] {
        run_as(&mut tree, session, Command::NotOpen { inos: vec![gone] }).unwrap();
    }
    assert_eq!(tree.run(Command::Lock { ino: gone, lock: lock(1, 0, 9, true) }), Err(MetaError::Stale));
    assert!(tree.machine.has_locks(OTHER));
    run_as(&mut tree, OTHER, Command::CloseSession).unwrap();
    assert!(!tree.machine.has_locks(OTHER));
    tree.run(Command::Lock { ino, lock: lock(1, 0, 9, true) }).unwrap();
}

#[test]
fn a_session_that_lost_its_locks_changes_no_content_before_it_knows() {
    let (mut tree, ino) = two_sessions();
    run_as(&mut tree, OTHER, Command::Lock { ino, lock: lock(1, 0, 9, true) }).unwrap();
    run_as(&mut tree, MetaSession::LEADER, Command::LoseLocks { session: OTHER }).unwrap();
    assert_eq!((locks_lost(&tree, OTHER), locks_lost(&tree, SESSION)), (1, 0));
    tree.run(Command::Lock { ino, lock: lock(1, 0, 9, true) }).unwrap();
    let size = Command::SetAttributes { ino, change: AttributeChange { size: Some(5), ..AttributeChange::default() } };
    let expects = Expected::default();
    let commit = Command::Commit { ino, keys: vec![key(0, 1, 0, 9)], least_size: 9, kills_set_ids: false, expects };
    for command in [size.clone(), commit] {
        assert_eq!(run_as(&mut tree, OTHER, command), Err(MetaError::LocksLost));
    }
    let Ok(Found::Freed(freed)) = tree.machine.query(&Query::Freed { partition: PARTITION, after: 0, most: 10 }) else {
        panic!()
    };
    assert_eq!(freed.len(), 1, "what was written for it is freed");
    let knows = Envelope { session: OTHER, locks_lost: 1, ..tree.envelope(size) };
    assert!(tree.machine.carry_out(&knows).is_ok());
    run_as(&mut tree, OTHER, Command::CloseSession).unwrap();
    assert_eq!(tree.machine.query(&Query::Lease { session: OTHER }), Err(MetaError::NoSession));
}

#[test]
fn a_locked_end_is_for_the_appends_of_one_session() {
    let (mut tree, ino) = two_sessions();
    run_as(&mut tree, OTHER, Command::Lock { ino, lock: Lock::of_end(OTHER) }).unwrap();
    assert_eq!(tree.commit(ino, vec![key(0, 1, 0, 9)], Some(0)), Err(MetaError::Changed));
    tree.commit(ino, vec![key(0, 2, 0, 9)], None).unwrap();
    run_as(&mut tree, OTHER, Command::Unlock { ino, owner: Lock::of_end(OTHER).owner, range: LockRange::ALL }).unwrap();
    tree.commit(ino, vec![key(9, 2, 9, 9)], Some(9)).unwrap();
}

#[test]
fn a_session_locks_only_so_many_ranges() {
    let (mut tree, ino) = two_sessions();
    for index in 0..MAX_LOCKS_OF_SESSION as u64 / 512 {
        let file = tree.make(Ino::ROOT, &index.to_string(), Kind::File).unwrap();
        for at in 0..512 {
            tree.run(Command::Lock { ino: file, lock: lock(1, at * 10, at * 10 + 4, true) }).unwrap();
        }
    }
    assert_eq!(tree.run(Command::Lock { ino, lock: lock(1, 0, 0, true) }), Err(MetaError::TooManyLocks));
    let first = tree.lookup(Ino::ROOT, "0").unwrap().ino;
    let middle = Command::Unlock { ino: first, owner: owner(1), range: LockRange { first: 2, last: 2 } };
    assert_eq!(tree.run(middle), Err(MetaError::TooManyLocks), "it would be two ranges");
    run_as(&mut tree, OTHER, Command::Lock { ino, lock: lock(1, 0, 0, true) }).unwrap();
    tree.run(Command::Unlock { ino: first, owner: owner(1), range: LockRange::ALL }).unwrap();
    tree.run(Command::Lock { ino: first, lock: lock(1, 0, 0, true) }).unwrap();
    assert_eq!(tree.run(Command::Lock { ino, lock: lock(1, 9, 3, true) }), Err(MetaError::Invalid));
}

/// For each byte and owner whether its lock is exclusive.
type Simple = BTreeMap<(u64, MetaSession, u64), bool>;

const BYTES: u64 = 12;

proptest! {
    #[test]
    fn random_locks_agree_with_a_map_of_bytes(
        steps in prop::collection::vec((0u8..4, any::<bool>(), 1u64..3, 0..BYTES, 0..BYTES), 1..80)
    ) {
        let (mut tree, ino) = two_sessions();
        let mut simple = Simple::new();
        for (kind, is_other, number, one, two) in steps {
            let session = if is_other { OTHER } else { SESSION };
            let (first, last) = (one.min(two), one.max(two));
            let wanted = lock(number, first, last, kind == 1);
            let is_free = simple.iter().all(|((byte, holder, owner), is_exclusive)| {
                !(first..=last).contains(byte) || (*holder, *owner) == (session, number) || !(*is_exclusive || kind == 1)
            });
            let found = in_the_way(&tree, ino, session, wanted);
            prop_assert_eq!(found.is_none(), is_free);
            if let Some(found) = found {
                prop_assert!(found.range.overlaps(&wanted.range) && (found.is_exclusive || wanted.is_exclusive));
            }
            match kind {
                0 | 1 => {
                    let done = run_as(&mut tree, session, Command::Lock { ino, lock: wanted });
                    prop_assert_eq!(done.is_ok(), is_free, "{:?}", done);
                    if is_free {
                        simple.extend((first..=last).map(|byte| ((byte, session, number), kind == 1)));
                    }
                }
                2 => {
                    let range = wanted.range;
                    run_as(&mut tree, session, Command::Unlock { ino, owner: owner(number), range }).unwrap();
                    simple.retain(|(byte, holder, owner), _| (*holder, *owner) != (session, number) || !(first..=last).contains(byte));
                }
                _ if last - first > 8 => {
                    run_as(&mut tree, MetaSession::LEADER, Command::LoseLocks { session }).unwrap();
                    simple.retain(|(_, holder, _), _| *holder != session);
                }
                _ => {}
            }
            tree.machine.locks.check(ino, &simple);
        }
    }
}

impl super::super::locks::Locks {
    /// It says what the map says, with as few ranges as can be.
    fn check(&self, ino: Ino, simple: &Simple) {
        let mut shown = Simple::new();
        let held = self.held(ino);
        for (session, lock) in &held {
            for byte in lock.range.first..=lock.range.last {
                assert!(shown.insert((byte, *session, lock.owner.number), lock.is_exclusive).is_none(), "{held:?}");
            }
            let touches = |(other, next): &&(MetaSession, Lock)| {
                (other, next.owner, next.is_exclusive) == (session, lock.owner, lock.is_exclusive)
                    && next.range.first == lock.range.last + 1
            };
            assert_eq!(held.iter().find(touches), None);
        }
        assert_eq!(&shown, simple);
        for session in [SESSION, OTHER] {
            assert_eq!(self.has_some(session), simple.keys().any(|(_, holder, _)| *holder == session));
        }
        assert_eq!(self.counted(), (held.len(), held.len()));
    }
}
