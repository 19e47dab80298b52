//! The protocol within its bounds, and one rule broken at a time.

use super::super::explore::{assert_broken, assert_sound, soaking};
use super::{Copies, Kind, Wrong};

fn copies(kind: Kind) -> Copies {
    Copies { kind, reigns: 2, versions: 2, sessions: 0, admits: false, rebuilds: true, wrong: Wrong::Nothing }
}

/// One primary, which sends again what has no answer.
fn sent_again(kind: Kind) -> Copies {
    Copies { reigns: 1, sessions: 1, admits: true, ..copies(kind) }
}

fn wrong(wrong: Wrong, kind: Kind, property: &'static str) {
    assert_broken(&format!("{wrong:?}"), Copies { wrong, ..copies(kind) }, property);
}

#[test]
fn contents_are_kept_by_two_primaries() {
    for kind in [Kind::Append, Kind::Overwrite] {
        assert_sound(&format!("{kind:?}"), copies(kind));
        if soaking() {
            assert_sound(&format!("{kind:?}, sent again"), Copies { sessions: 1, admits: true, ..copies(kind) });
            assert_sound(&format!("{kind:?}, three reigns"), Copies { reigns: 3, ..copies(kind) });
        }
    }
}

#[test]
fn contents_are_kept_by_a_primary_that_rebuilds_copies() {
    for kind in [Kind::Append, Kind::Overwrite] {
        assert_sound(&format!("{kind:?}, one reign"), Copies { reigns: 1, admits: true, ..copies(kind) });
    }
}

#[test]
fn changes_wait_for_all_copies_in_sync() {
    wrong(Wrong::AcknowledgesBeforeLeave, Kind::Overwrite, "kept");
    wrong(Wrong::LeavesOne, Kind::Append, "two");
}

#[test]
fn copies_obey_one_primary() {
    wrong(Wrong::DoesNotEnter, Kind::Overwrite, "equal");
    assert_broken("DoesNotDrain", Copies { admits: true, wrong: Wrong::DoesNotDrain, ..copies(Kind::Overwrite) }, "equal");
    wrong(Wrong::ForgetsPromises, Kind::Overwrite, "equal");
}

#[test]
fn what_is_sent_again_has_a_session_of_its_own() {
    assert_broken("KeepsItsSession", Copies { wrong: Wrong::KeepsItsSession, ..sent_again(Kind::Overwrite) }, "equal");
}

#[test]
fn copies_that_may_differ_are_known_and_aligned() {
    for (broken, kind) in
        [(Wrong::DoesNotAlign, Kind::Overwrite), (Wrong::OpensNothing, Kind::Append), (Wrong::SettlesEarly, Kind::Overwrite)]
    {
        wrong(broken, kind, "equal");
    }
}

#[test]
fn primaries_are_in_sync() {
    wrong(Wrong::OutsidersLead, Kind::Append, "kept");
}

#[test]
fn rebuilds_miss_no_change() {
    wrong(Wrong::CopiesWithoutLock, Kind::Overwrite, "equal");
}

#[test]
fn reads_show_what_stays() {
    wrong(Wrong::ReadsWithoutLease, Kind::Overwrite, "kept");
    wrong(Wrong::ReadsWhatIsUnderWay, Kind::Overwrite, "kept");
}
