use super::*;

const ONE: MetaSession = MetaSession(1);

fn sessions(has_locks: bool) -> BTreeMap<MetaSession, bool> {
    BTreeMap::from([(ONE, has_locks)])
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

#[test]
fn locks_go_after_a_lease_and_a_session_without_locks_after_its_patience() {
    let (mut heard, lease) = (Heard::default(), LOCK_LEASE.as_secs());
    assert_eq!(heard.doom(Term(1), &sessions(true), at(100)), [], "it is heard of from now on");
    assert!(heard.hear(ONE, at(110)));
    assert_eq!(heard.doom(Term(1), &sessions(true), at(109 + lease)), []);
    assert_eq!(heard.doom(Term(1), &sessions(true), at(110 + lease)), [(ONE, Doom::Locks)]);
    heard.done(ONE);
    assert_eq!(heard.doom(Term(1), &sessions(false), at(110 + lease)), []);
    assert_eq!(heard.doom(Term(1), &sessions(false), at(410)), [(ONE, Doom::All)]);
}

#[test]
fn a_session_that_is_losing_its_locks_is_not_told_that_its_lease_goes_on() {
    let mut heard = Heard::default();
    heard.doom(Term(1), &sessions(true), at(0));
    assert_eq!(heard.doom(Term(1), &sessions(true), at(31)), [(ONE, Doom::Locks)]);
    assert!(!heard.hear(ONE, at(31)), "the command that takes them may be under way");
    assert_eq!(heard.doom(Term(1), &sessions(true), at(32)), [(ONE, Doom::Locks)], "until they are taken");
    heard.done(ONE);
    assert!(heard.hear(ONE, at(33)));
    assert_eq!(heard.doom(Term(1), &sessions(true), at(34)), []);
}

#[test]
fn a_new_term_gives_each_session_a_whole_lease() {
    let mut heard = Heard::default();
    heard.doom(Term(1), &sessions(true), at(0));
    // Another node has led meanwhile, and has heard of it.
    assert_eq!(heard.doom(Term(3), &sessions(true), at(100)), []);
    assert_eq!(heard.doom(Term(3), &sessions(true), at(129)), []);
    assert_eq!(heard.doom(Term(3), &sessions(true), at(130)), [(ONE, Doom::Locks)]);
    // The node slept: nothing that was sent to it meanwhile was heard.
    let mut slept = Heard::default();
    slept.doom(Term(1), &sessions(true), at(0));
    slept.forget();
    assert_eq!(slept.doom(Term(1), &sessions(true), at(1000)), []);
}
