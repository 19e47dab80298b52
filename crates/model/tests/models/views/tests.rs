//! The runs: sound within these bounds, and each rule broken once.

use super::Kind::{Conditional, Ordinary};
use super::explore::{assert_broken, assert_sound, soaking};
use super::{Kind, Views, Wrong};

fn views(writes: &[(usize, Kind)], removals: &[usize], reads: u8) -> Views {
    Views {
        gateways: 3,
        writes: writes.to_vec(),
        removals: removals.to_vec(),
        joins_after: None,
        key: 0,
        reads,
        loses_primary: false,
        wrong: Wrong::Nothing,
    }
}

fn losing_primary(writes: &[(usize, Kind)], removals: &[usize]) -> Views {
    Views { loses_primary: true, ..views(writes, removals, 2) }
}

/// Gateway 2 is removed, then gateway 3 joins.
fn joined(writes: &[(usize, Kind)], reads: u8) -> Views {
    Views { joins_after: Some(1), ..views(writes, &[2], reads) }
}

/// Of two gateways the first is removed and gateway 2 joins; then the second one is removed, which may be before it has said anything.
fn join_and_removal(writes: &[(usize, Kind)], reads: u8) -> Views {
    Views { gateways: 2, joins_after: Some(1), ..views(writes, &[0, 1], reads) }
}

#[test]
fn a_removed_gateways_writes_are_decided_once_for_all() {
    assert_sound("a write of the removed gateway", views(&[(0, Ordinary)], &[0], 3));
    assert_sound("a removed gateway's write beside another", views(&[(0, Ordinary), (1, Ordinary)], &[0], 0));
    assert_sound("two writes of the removed gateway", views(&[(0, Ordinary), (0, Ordinary)], &[0], 2));
    if soaking() {
        assert_sound("a removed gateway's write beside another, two reads", views(&[(0, Ordinary), (1, Ordinary)], &[0], 2));
    }
}

#[test]
fn a_leader_may_be_removed_between_any_two_steps() {
    assert_sound("two of three removed", views(&[(0, Ordinary)], &[0, 1], 2));
    if soaking() {
        assert_sound("two of four removed", Views { gateways: 4, ..views(&[(0, Ordinary)], &[0, 1], 2) });
        assert_sound("two removed, a write of each", views(&[(0, Ordinary), (1, Ordinary)], &[0, 1], 2));
        assert_sound("two removed, a write that stays", views(&[(0, Ordinary), (2, Ordinary)], &[0, 1], 2));
        let freeze = views(&[(0, Ordinary), (1, Conditional)], &[0, 1], 1);
        assert_sound("two removed, the leader's freeze", freeze);
    }
}

#[test]
fn the_primary_may_be_lost_meanwhile() {
    assert_sound("the primary lost", losing_primary(&[(0, Ordinary)], &[0]));
    if soaking() {
        assert_sound("the primary lost, two removed", losing_primary(&[(0, Ordinary)], &[0, 1]));
        assert_sound("the primary lost beside a write", losing_primary(&[(0, Ordinary), (1, Ordinary)], &[0]));
    }
}

#[test]
fn a_gateway_may_join_when_all_is_decided() {
    assert_sound("a join beside a write", joined(&[(1, Ordinary)], 2));
    assert_sound("a join after the removed gateway's write", joined(&[(2, Ordinary)], 2));
    assert_sound("a join beside a freeze", joined(&[(1, Conditional), (3, Ordinary)], 1));
    assert_sound("a join, then a removal", join_and_removal(&[(1, Ordinary)], 2));
    if soaking() {
        assert_sound("a join, then a removal, beside a freeze", join_and_removal(&[(1, Conditional), (2, Ordinary)], 1));
    }
}

#[test]
fn freezes_outlive_views() {
    for key in [0, 1] {
        let freezes = |writes: &[(usize, Kind)], reads: u8| Views { key, ..views(writes, &[0], reads) };
        assert_sound("a freeze of the removed gateway", freezes(&[(0, Conditional), (1, Ordinary)], 1));
        assert_sound("a freeze of a member", freezes(&[(1, Conditional), (2, Ordinary)], 0));
        assert_sound("two freezes", freezes(&[(1, Conditional), (2, Conditional)], 0));
        assert_sound("two freezes, one of the removed gateway", freezes(&[(0, Conditional), (2, Conditional)], 0));
        assert_sound("a write of the removed gateway beside a freeze", freezes(&[(0, Ordinary), (1, Conditional)], 0));
        if soaking() {
            assert_sound(
                "a write of the removed gateway beside a freeze, a read",
                freezes(&[(0, Ordinary), (1, Conditional)], 1),
            );
        }
    }
    if soaking() {
        let four =
            |removals: &[usize]| Views { gateways: 4, key: 2, ..views(&[(1, Conditional), (2, Conditional)], removals, 0) };
        assert_sound("four gateways, two freezes", four(&[0]));
        assert_sound("four gateways, the home of the new view removed", four(&[0, 3]));
        assert_sound("a freeze, a write of the removed gateway and one that stays", {
            views(&[(0, Ordinary), (1, Conditional), (2, Ordinary)], &[0], 0)
        });
    }
}

fn wrong(wrong: Wrong, model: Views, property: &'static str) {
    assert_broken(&format!("{wrong:?}"), Views { wrong, ..model }, property);
}

#[test]
fn wrong_recoveries_are_found() {
    let one = || views(&[(0, Ordinary)], &[0], 2);
    wrong(Wrong::NoWaitForLease, views(&[(1, Ordinary)], &[0], 1), "linearizable");
    wrong(Wrong::VoidsBeforeWalk, one(), "linearizable");
    wrong(Wrong::WalksBeforeFence, one(), "linearizable");
    wrong(Wrong::IgnoresFences, one(), "fenced");
    wrong(Wrong::DecidesUnheard, one(), "linearizable");
    wrong(Wrong::PublishesOnArrival, one(), "linearizable");
    wrong(Wrong::DecidesOnAnotherStream, one(), "linearizable");
    wrong(Wrong::SpreadsBeforeCopies, losing_primary(&[(0, Ordinary)], &[0]), "readable");
}

#[test]
fn wrong_freezes_across_views_are_found() {
    let of_the_removed = views(&[(0, Conditional), (1, Ordinary)], &[0], 1);
    let of_a_member = views(&[(1, Conditional), (2, Ordinary)], &[0], 0);
    let beside_the_removed = views(&[(0, Ordinary), (1, Conditional)], &[0], 2);
    wrong(Wrong::ForgetsFreezes, of_the_removed, "atomic");
    wrong(Wrong::ForgetsFreezes, of_a_member.clone(), "atomic");
    wrong(Wrong::OldAnswersCount, of_a_member, "atomic");
    wrong(Wrong::HoldersDoNotHoldBack, beside_the_removed.clone(), "atomic");
    let of_two = Views { gateways: 2, ..views(&[(0, Conditional), (1, Conditional)], &[0], 1) };
    assert_sound("two freezes of two gateways", of_two.clone());
    wrong(Wrong::HoldersDoNotStop, of_two, "atomic");
    wrong(Wrong::StartsUndecided, beside_the_removed, "atomic");
}

#[test]
fn wrong_joins_are_found() {
    wrong(Wrong::KeepsAcknowledgements, joined(&[(1, Ordinary)], 1), "linearizable");
    wrong(Wrong::JoinsWithoutMaps, joined(&[(1, Ordinary)], 1), "linearizable");
    wrong(Wrong::JoinsUndecided, join_and_removal(&[(1, Ordinary)], 2), "linearizable");
    wrong(Wrong::JoinsUndecided, join_and_removal(&[(1, Conditional), (2, Ordinary)], 1), "atomic");
    wrong(Wrong::JoinsWithoutFreezes, joined(&[(1, Conditional), (3, Ordinary)], 0), "atomic");
}
