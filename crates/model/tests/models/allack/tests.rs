//! The runs: sound within these bounds, and each rule broken once.

use super::explore::{assert_broken, assert_sound, soaking};
use super::{AllAck, Length, Mask, Member, Wrong};

fn within(views: usize, entries: Length, crashes: u8, wrong: Wrong) -> AllAck {
    AllAck { views, entries, crashes, script: &[], wrong }
}

/// Three views, of which the second and third are these.
fn scripted(entries: Length, script: &'static [(Member, Mask)], wrong: Wrong) -> AllAck {
    AllAck { script, ..within(3, entries, 0, wrong) }
}

fn broken(property: &'static str, model: AllAck) {
    assert_broken(&format!("{:?}", model.wrong), model, property);
}

#[test]
fn what_clients_were_told_stays() {
    assert_sound("three views", within(3, 1, 0, Wrong::Nothing));
    if soaking() {
        assert_sound("with a crash", within(3, 1, 1, Wrong::Nothing));
        assert_sound("with two entries", within(3, 2, 0, Wrong::Nothing));
        // The highest log keeps most. For what clients were told, any member's would do.
        assert_sound("its own log", within(3, 1, 1, Wrong::AdoptsItsOwn));
    }
}

#[test]
fn promises_and_roles_end_with_a_restart_as_they_must() {
    broken("durable", within(2, 1, 1, Wrong::ForgetsPromises));
    broken("matching", within(1, 2, 1, Wrong::GoesOnAfterRestart));
}

#[test]
fn only_recorded_views_count() {
    broken("durable", scripted(1, &[(0, 0b101), (2, 0b100)], Wrong::CountsAppointedViews));
    broken("durable", within(2, 1, 0, Wrong::ServesUnrecordedViews));
    broken("durable", within(2, 1, 0, Wrong::ActivatesWithoutJoiners));
}

#[test]
fn logs_of_others_than_members_do_not_count() {
    broken("durable", scripted(2, &[(1, 0b010), (1, 0b011)], Wrong::AdoptsTheLongest));
}

#[test]
fn readers_see_what_is_committed_and_all_of_it() {
    broken("fresh", within(2, 1, 0, Wrong::IgnoresTheLease));
    broken("durable", within(1, 1, 0, Wrong::ShowsUncommitted));
}

#[test]
fn divergent_suffixes_are_undone() {
    broken("durable", within(2, 2, 0, Wrong::KeepsDivergentSuffix));
    broken("undone", within(2, 2, 0, Wrong::UndoesOldestFirst));
}
