//! The runs: sound within these bounds, and each rule broken once.

use super::Kind::{Get, Put, PutIfAbsent};
use super::explore::{assert_broken, assert_sound, soaking};
use super::{FailedWrites, Kind, Wrong};

fn failed(calls: &[(usize, Kind)]) -> FailedWrites {
    FailedWrites {
        gateways: 2,
        calls: calls.to_vec(),
        failures: 1,
        removes: None,
        changes_table: false,
        dies: false,
        wrong: Wrong::Nothing,
    }
}

fn dying(calls: &[(usize, Kind)]) -> FailedWrites {
    FailedWrites { dies: true, ..failed(calls) }
}

/// Gateway 1 may be removed.
fn removing(calls: &[(usize, Kind)]) -> FailedWrites {
    FailedWrites { removes: Some(1), ..failed(calls) }
}

fn changing_table(model: FailedWrites) -> FailedWrites {
    FailedWrites { changes_table: true, ..model }
}

const BESIDE_PUT: [(usize, Kind); 3] = [(1, Put), (0, Put), (0, Get)];
const SWAP_BESIDE_PUT: [(usize, Kind); 3] = [(1, PutIfAbsent), (0, Put), (0, Get)];
const PUT_BESIDE_SWAP: [(usize, Kind); 3] = [(1, Put), (0, PutIfAbsent), (0, Get)];
const TWO_SWAPS: [(usize, Kind); 3] = [(1, PutIfAbsent), (0, PutIfAbsent), (0, Get)];

#[test]
fn a_failed_write_takes_effect_once_or_never() {
    for calls in [BESIDE_PUT, SWAP_BESIDE_PUT, PUT_BESIDE_SWAP, TWO_SWAPS] {
        assert_sound(&format!("{calls:?}, then death"), dying(&calls));
    }
    if soaking() {
        let two = [(1, PutIfAbsent), (0, Put), (0, Get), (1, Get)];
        assert_sound("two reads, two failures, then death", FailedWrites { failures: 2, ..dying(&two) });
        let three = [(1, PutIfAbsent), (2, Put), (0, Get)];
        assert_sound("three gateways, then death", FailedWrites { gateways: 3, ..dying(&three) });
    }
}

#[test]
fn the_gateway_of_a_failed_write_may_be_removed() {
    for calls in [SWAP_BESIDE_PUT, PUT_BESIDE_SWAP] {
        assert_sound(&format!("{calls:?}, a removal"), removing(&calls));
    }
    if soaking() {
        assert_sound("two puts, a removal", removing(&BESIDE_PUT));
        let two = [(1, Put), (0, PutIfAbsent), (0, Get), (0, Get)];
        assert_sound("two reads, a removal", removing(&two));
        assert_sound("a removal, then death", FailedWrites { dies: true, ..removing(&SWAP_BESIDE_PUT) });
    }
}

#[test]
fn another_table_may_come_meanwhile() {
    for calls in [SWAP_BESIDE_PUT, PUT_BESIDE_SWAP] {
        assert_sound(&format!("{calls:?}, another table, then death"), changing_table(dying(&calls)));
    }
    if soaking() {
        assert_sound("another table and a removal", changing_table(removing(&SWAP_BESIDE_PUT)));
    }
}

fn wrong(wrong: Wrong, model: FailedWrites) {
    assert_broken(&format!("{wrong:?}"), FailedWrites { wrong, ..model }, "linearizable");
}

#[test]
fn wrong_failures_are_found() {
    wrong(Wrong::VoidsAtOnce, dying(&SWAP_BESIDE_PUT));
    wrong(Wrong::OwnTableSuffices, changing_table(dying(&SWAP_BESIDE_PUT)));
    wrong(Wrong::SettlesAhead, changing_table(dying(&SWAP_BESIDE_PUT)));
    wrong(Wrong::NoSessions, dying(&BESIDE_PUT));
    wrong(Wrong::PublishesLateAnswers, failed(&[(1, Put), (0, PutIfAbsent), (0, Get), (0, Get)]));
    wrong(Wrong::RetriesUnfrozen, failed(&SWAP_BESIDE_PUT));
    wrong(Wrong::RecoversTheFirst, removing(&[(1, Put), (1, Put), (0, Get)]));
}
