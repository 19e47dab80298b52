//! The judges see what is wrong.

use crate::cluster::files::log::{Log, RecordId, parse, record};
use crate::cluster::files::tree::{NameCall, NameOutcome, Names, Tree};
use filesystem::meta::{MetaError, RenameHow};
use model::linearizability::History;

const ROOT: u64 = 10;

/// Calls one after the other, each with its outcome.
fn in_turn(calls: Vec<(NameCall, Option<NameOutcome>)>) -> bool {
    let mut history: History<Tree> = History::default();
    for (call, outcome) in calls {
        let id = history.call(call);
        if let Some(outcome) = outcome {
            history.answer(id, outcome);
        }
    }
    history.check(Names::new(vec![ROOT])).is_ok()
}

fn make(name: u8, ino: u64, is_directory: bool) -> (NameCall, Option<NameOutcome>) {
    let call = NameCall::Make { number: ino, at: (ROOT, name), is_directory };
    (call, Some(NameOutcome::Found(ino, is_directory)))
}

fn lookup(name: u8, outcome: NameOutcome) -> (NameCall, Option<NameOutcome>) {
    (NameCall::Lookup { at: (ROOT, name) }, Some(outcome))
}

fn rename(how: RenameHow, outcome: Option<NameOutcome>) -> (NameCall, Option<NameOutcome>) {
    (NameCall::Rename { from: (ROOT, 1), to: (ROOT, 2), how }, outcome)
}

const FOUND: fn(u64) -> NameOutcome = |ino| NameOutcome::Found(ino, false);
const MISSING: NameOutcome = NameOutcome::Refused(MetaError::NotFound);

#[test]
fn a_renamed_file_has_one_name() {
    let done = Some(NameOutcome::Done);
    for how in [RenameHow::Replace, RenameHow::NoReplace] {
        let renamed =
            |one, other| in_turn(vec![make(1, 20, false), rename(how, done.clone()), lookup(1, one), lookup(2, other)]);
        assert!(renamed(MISSING, FOUND(20)));
        assert!(!renamed(FOUND(20), FOUND(20)), "two names");
        assert!(!renamed(MISSING, MISSING), "no name");
    }
    let exchanged = |one, other| {
        let made = [make(1, 20, false), make(2, 21, false), rename(RenameHow::Exchange, done.clone())];
        in_turn(made.into_iter().chain([lookup(1, one), lookup(2, other)]).collect())
    };
    assert!(exchanged(FOUND(21), FOUND(20)));
    assert!(!exchanged(FOUND(20), FOUND(21)));
    let taken = Some(NameOutcome::Refused(MetaError::Exists));
    assert!(in_turn(vec![make(1, 20, false), make(2, 21, false), rename(RenameHow::NoReplace, taken.clone())]));
    assert!(!in_turn(vec![make(1, 20, false), rename(RenameHow::NoReplace, taken)]));
}

#[test]
fn what_was_not_answered_may_have_happened_once() {
    let unheard = |later: Vec<(NameCall, Option<NameOutcome>)>| {
        let call = NameCall::Make { number: 7, at: (ROOT, 1), is_directory: false };
        in_turn([(call, None)].into_iter().chain(later).collect())
    };
    assert!(unheard(vec![lookup(1, MISSING), lookup(1, FOUND(20)), lookup(1, FOUND(20))]));
    assert!(!unheard(vec![lookup(1, FOUND(20)), lookup(1, MISSING)]));
    assert!(!unheard(vec![lookup(1, FOUND(20)), lookup(1, FOUND(21))]));
}

#[test]
fn a_listing_is_of_one_moment() {
    let list = |listed| (NameCall::List { directory: ROOT }, Some(NameOutcome::Listed(listed)));
    let both = vec![(1, 20, false), (2, 21, true)];
    let listed = |listed| in_turn(vec![make(1, 20, false), make(2, 21, true), list(listed)]);
    assert!(listed(both.clone()));
    assert!(!listed(both[..1].to_vec()));
    assert!(!listed(vec![(1, 20, false), (2, 22, true)]));
    let full = |outcome| {
        let inner = NameCall::Make { number: 9, at: (21, 1), is_directory: false };
        let made = (inner, Some(FOUND(22)));
        in_turn(vec![make(2, 21, true), made, (NameCall::Rmdir { at: (ROOT, 2) }, Some(outcome))])
    };
    assert!(full(NameOutcome::Refused(MetaError::NotEmpty)));
    assert!(!full(NameOutcome::Done));
}

#[test]
fn a_log_has_each_append_once_and_in_order() {
    let log = || {
        let mut log = Log::default();
        let (one, other) = (log.call(1), log.call(2));
        log.acknowledge(one, 3);
        let late = log.call(4);
        (log, one, other, late)
    };
    let reads = |first: &[u32], second: &[u32]| {
        let (mut log, ..) = log();
        let ids = |records: &[u32]| -> Vec<RecordId> { records.iter().map(|id| RecordId(*id)).collect() };
        log.read(&ids(first), 5, 6).and_then(|()| log.read(&ids(second), 7, 8))
    };
    assert_eq!(reads(&[0, 1], &[0, 1, 2]), Ok(()));
    assert_eq!(reads(&[1, 0], &[1, 0]), Ok(()));
    assert!(reads(&[], &[0]).is_err(), "an acknowledged one is missing");
    assert!(reads(&[0, 0], &[0]).is_err(), "one is there twice");
    assert!(reads(&[2, 0], &[2, 0]).is_err(), "the order of time");
    assert!(reads(&[0, 1], &[1, 0]).is_err(), "what was read has changed");
    assert!(reads(&[0, 1], &[0]).is_err(), "what was read is gone");
    assert!(reads(&[0, 3], &[0]).is_err(), "what was never appended");
    let (mut log, one, other, _) = log();
    log.lose(5);
    assert_eq!(log.read(&[one], 6, 7), Ok(()));
    assert!(log.read(&[one, other], 8, 9).is_err(), "it came when nothing was under way any more");
}

#[test]
fn records_are_whole() {
    let mut bytes = record(RecordId(5), 40);
    bytes.extend(record(RecordId(6), 8));
    assert_eq!(parse(&bytes), Ok(vec![RecordId(5), RecordId(6)]));
    assert!(parse(&bytes[..45]).is_err());
    bytes[20] ^= 1;
    assert!(parse(&bytes).is_err());
}
