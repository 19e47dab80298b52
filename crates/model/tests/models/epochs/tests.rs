//! The runs: sound within these bounds, and each rule broken once.

use super::explore::{assert_broken, assert_sound, soaking};
use super::{Epochs, Wrong};

/// A write of a gateway to a key, and a delete.
const fn put(gateway: usize, key: usize) -> (usize, usize, bool) {
    (gateway, key, false)
}

const fn delete(gateway: usize, key: usize) -> (usize, usize, bool) {
    (gateway, key, true)
}

fn epochs(gateways: usize, writes: &[(usize, usize, bool)], checkpoints: u8) -> Epochs {
    Epochs {
        gateways,
        writes: writes.to_vec(),
        removals: Vec::new(),
        checkpoints,
        moves: 0,
        moves_again: false,
        begins_covered: false,
        tombstone_epochs: 1,
        wrong: Wrong::Nothing,
    }
}

fn removing(removals: &[usize], model: Epochs) -> Epochs {
    Epochs { removals: removals.to_vec(), ..model }
}

/// Copies of a record move that a checkpoint covers.
fn moving(moves: u8, model: Epochs) -> Epochs {
    Epochs { moves, begins_covered: true, ..model }
}

/// And again, before a checkpoint covers that.
fn moving_again(moves: u8, model: Epochs) -> Epochs {
    Epochs { moves_again: true, ..moving(moves, model) }
}

#[test]
fn a_checkpoint_covers_what_it_says() {
    assert_sound("two writes", epochs(2, &[put(0, 0), put(1, 1)], 2));
    assert_sound("a delete", epochs(2, &[put(1, 0), delete(0, 0)], 3));
    if soaking() {
        assert_sound("three gateways", epochs(3, &[put(1, 0), put(2, 1)], 2));
        assert_sound("three gateways, a delete", epochs(3, &[put(1, 0), delete(0, 0)], 2));
    }
}

#[test]
fn leaders_may_die_at_any_step() {
    assert_sound("the leader of two", removing(&[0], epochs(2, &[put(1, 0), put(0, 1)], 2)));
    assert_sound("a delete, the leader of two", removing(&[0], epochs(2, &[put(1, 0), delete(0, 0)], 2)));
    if soaking() {
        assert_sound("the leader of three", removing(&[0], epochs(3, &[put(2, 0)], 2)));
        assert_sound("a member of three", removing(&[2], epochs(3, &[put(2, 0)], 2)));
        assert_sound("two leaders of three", removing(&[0, 1], epochs(3, &[put(2, 0)], 2)));
        assert_sound("the leader of three, its write", removing(&[0], epochs(3, &[put(0, 0)], 2)));
        assert_sound("the leader of three, two writes", removing(&[0], epochs(3, &[put(2, 0), put(0, 1)], 1)));
        let lags = removing(&[2], epochs(3, &[put(2, 0), delete(0, 0)], 1));
        assert_sound("a member that lags", Epochs { tombstone_epochs: 0, ..lags });
    }
}

#[test]
fn copies_move_while_leaders_die() {
    assert_sound("two moves", moving(2, epochs(2, &[put(1, 0)], 2)));
    assert_sound("two moves, the leader of two", moving(2, removing(&[0], epochs(2, &[put(1, 0)], 3))));
    assert_sound("a record moves twice, a member of three", moving_again(2, removing(&[2], epochs(3, &[put(1, 0)], 0))));
    assert_sound("a record moves twice, the leader of two", moving_again(2, removing(&[0], epochs(2, &[put(1, 0)], 1))));
    assert_sound("a move beside a delete", moving(1, epochs(2, &[put(1, 0), delete(1, 0)], 2)));
    if soaking() {
        assert_sound("a move, the leader of three", moving(1, removing(&[0], epochs(3, &[put(1, 0)], 2))));
        assert_sound("a move, two leaders of three", moving(1, removing(&[0, 1], epochs(3, &[put(1, 0)], 1))));
        assert_sound("a move beside a write", moving(1, removing(&[0], epochs(2, &[put(1, 0), put(0, 0)], 2))));
    }
}

fn wrong(wrong: Wrong, model: Epochs, property: &'static str) {
    assert_broken(&format!("{wrong:?}"), Epochs { wrong, ..model }, property);
}

#[test]
fn wrong_epochs_are_found() {
    let two = || epochs(2, &[put(1, 0)], 1);
    wrong(Wrong::ReadsAfterAnnouncing, two(), "kept");
    wrong(Wrong::ReportsBeforeDraining, two(), "kept");
    wrong(Wrong::LeavesEarly, two(), "kept");
    let three = || removing(&[0], epochs(3, &[put(2, 0)], 2));
    wrong(Wrong::CountsAlone, three(), "kept");
    wrong(Wrong::CountsNoEntries, removing(&[0], epochs(2, &[put(1, 0), put(0, 1)], 2)), "kept");
    wrong(Wrong::AdvancesForOldViews, three(), "kept");
    let uncovered = Epochs { begins_covered: false, ..moving(1, removing(&[0], epochs(2, &[put(1, 0)], 3))) };
    wrong(Wrong::TakesFromDeposed, uncovered, "kept");
}

#[test]
fn wrong_recoveries_of_epochs_are_found() {
    wrong(Wrong::WalksFromOwn, removing(&[2], epochs(3, &[put(2, 0)], 1)), "ends");
    wrong(Wrong::HearsWhoLeft, removing(&[1], epochs(2, &[put(1, 0), delete(0, 0)], 3)), "kept");
    if soaking() {
        let forgotten = Epochs { tombstone_epochs: 0, ..removing(&[2], epochs(3, &[put(2, 0), delete(0, 0)], 1)) };
        wrong(Wrong::BringsBackForgotten, forgotten, "ends");
    }
}

#[test]
fn wrong_moves_are_found() {
    wrong(Wrong::ResetsUnheard, moving(1, epochs(2, &[put(1, 0)], 1)), "referenced");
    wrong(Wrong::ToldOnce, moving(1, removing(&[0], epochs(3, &[put(1, 0)], 0))), "ends");
    wrong(Wrong::NotesWhenApplied, moving(1, removing(&[0], epochs(3, &[put(1, 0)], 0))), "ends");
    wrong(Wrong::ToldBeforeHello, moving_again(2, removing(&[2], epochs(3, &[put(1, 0)], 0))), "ends");
    wrong(Wrong::AnnouncesBeforeMoves, moving(1, removing(&[0], epochs(3, &[put(1, 0)], 1))), "ends");
}
