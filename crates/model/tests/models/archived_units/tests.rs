//! The runs: sound within these bounds, and each rule broken once.

use super::explore::{assert_broken, assert_sound, soaking};
use super::{ArchivedUnits, Wrong};

fn archived(pages: usize) -> ArchivedUnits {
    ArchivedUnits { pages, changes: 2, wrong: Wrong::Nothing }
}

fn wrong(wrong: Wrong, property: &'static str) {
    assert_broken(&format!("{wrong:?}"), ArchivedUnits { wrong, ..archived(2) }, property);
}

#[test]
fn rows_leave_and_come_back_as_they_were() {
    assert_sound("three pages", archived(3));
    if soaking() {
        assert_sound("four pages", archived(4));
    }
}

#[test]
fn touches_must_look_at_what_there_is() {
    wrong(Wrong::TouchesFromFormerPages, "merged");
    wrong(Wrong::TouchesTheResident, "merged");
    wrong(Wrong::TouchesTheGone, "merged");
}

#[test]
fn commits_let_go_of_what_their_page_has() {
    wrong(Wrong::DropsChanged, "merged");
    wrong(Wrong::DropsWork, "told");
    wrong(Wrong::CommitsForAnyDraft, "merged");
    wrong(Wrong::ReadsBeforeRegistering, "merged");
}

#[test]
fn what_is_gone_must_be_known() {
    wrong(Wrong::NoTombstones, "merged");
    wrong(Wrong::NoTombstonesForDrafts, "merged");
    wrong(Wrong::CommitForgetsTheGone, "merged");
    wrong(Wrong::RevocationForgetsTheGone, "merged");
}

/// Two rules of which one is enough, as far as rows go; but a commit must look, or the page of an empty range stays for good.
#[test]
fn an_empty_range_keeps_nothing() {
    let keeps = ArchivedUnits { wrong: Wrong::KeepsDraftOfNobody, ..archived(2) };
    assert_sound("a draft that stays", keeps);
    wrong(Wrong::InstallsForNobody, "emptied");
    wrong(Wrong::KeepsAndInstallsForNobody, "merged");
}
