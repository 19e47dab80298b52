//! The runs: sound within these bounds, and each rule broken once.

use super::Kind::{Delete, Get, Modify, Put};
use super::explore::{assert_broken, assert_sound, soaking};
use super::{ChunkStore, FIRST_PLACES, Kind, Moves, Wrong};

fn calls(calls: &[Kind]) -> ChunkStore {
    let (moves, hosts, wrong) = (Moves::Never, FIRST_PLACES, Wrong::Nothing);
    ChunkStore { calls: calls.to_vec(), moves, is_stored: false, hosts, deaths: 0, wrong }
}

fn stored(others: &[Kind]) -> ChunkStore {
    ChunkStore { is_stored: true, ..calls(&[&[Put], others].concat()) }
}

fn dying(model: ChunkStore) -> ChunkStore {
    ChunkStore { deaths: 1, ..model }
}

fn moving(model: ChunkStore, moves: Moves) -> ChunkStore {
    ChunkStore { moves, ..model }
}

fn broken(model: ChunkStore, wrong: Wrong, property: &'static str) {
    assert_broken(&format!("{wrong:?}"), ChunkStore { wrong, ..model }, property);
}

#[test]
fn a_put_beside_gets() {
    assert_sound("put, two gets", dying(calls(&[Put, Get, Get])));
    if soaking() {
        assert_sound("put, three gets", dying(calls(&[Put, Get, Get, Get])));
        assert_sound("put, delete, get", dying(calls(&[Put, Delete, Get])));
        assert_sound("put, modify, get", dying(calls(&[Put, Modify, Get])));
    }
}

#[test]
fn modifications_beside_gets() {
    assert_sound("a modification that may die, two gets", dying(stored(&[Modify, Get, Get])));
    assert_sound("two modifications that may die, a get", dying(stored(&[Modify, Modify, Get])));
    if soaking() {
        assert_sound("two modifications, two gets", dying(stored(&[Modify, Modify, Get, Get])));
    }
}

#[test]
fn a_delete_beside_others() {
    assert_sound("a delete that may die, two gets", dying(stored(&[Delete, Get, Get])));
    if soaking() {
        assert_sound("a delete, a modification, a get", dying(stored(&[Delete, Modify, Get])));
        assert_sound("two deletes, a get", dying(stored(&[Delete, Delete, Get])));
    }
}

#[test]
fn a_relocation_beside_others() {
    for moves in [Moves::Relocates, Moves::Repairs] {
        assert_sound(&format!("{moves:?} beside modify, get"), moving(dying(stored(&[Modify, Get])), moves));
        assert_sound(&format!("{moves:?} beside delete, get"), moving(stored(&[Delete, Get]), moves));
        if soaking() {
            assert_sound(&format!("{moves:?} beside put, get, get"), moving(dying(calls(&[Put, Get, Get])), moves));
            assert_sound(&format!("{moves:?} beside delete, get, a death"), moving(dying(stored(&[Delete, Get])), moves));
            assert_sound(&format!("{moves:?} beside modify, modify, get"), moving(stored(&[Modify, Modify, Get]), moves));
            assert_sound(&format!("{moves:?} beside modify, delete, get"), moving(stored(&[Modify, Delete, Get]), moves));
            assert_sound(&format!("{moves:?} beside modify, get, get"), moving(stored(&[Modify, Get, Get]), moves));
        }
    }
}

#[test]
fn growing_and_shrinking_beside_others() {
    for moves in [Moves::Grows, Moves::GivesUp, Moves::GivesUpFormer, Moves::Shrinks] {
        assert_sound(&format!("{moves:?} beside modify, get"), moving(dying(stored(&[Modify, Get])), moves));
        assert_sound(&format!("{moves:?} beside delete, get"), moving(stored(&[Delete, Get]), moves));
        if soaking() {
            assert_sound(&format!("{moves:?} beside modify, modify, get"), moving(stored(&[Modify, Modify, Get]), moves));
            assert_sound(&format!("{moves:?} beside modify, delete, get"), moving(stored(&[Modify, Delete, Get]), moves));
            assert_sound(&format!("{moves:?} beside modify, get, get"), moving(stored(&[Modify, Get, Get]), moves));
        }
    }
    for moves in [Moves::GrowsThird, Moves::ShrinksAndGrows] {
        assert_sound(&format!("{moves:?} beside modify, get"), moving(stored(&[Modify, Get]), moves));
        assert_sound(&format!("{moves:?} beside delete"), moving(stored(&[Delete]), moves));
        if soaking() {
            assert_sound(&format!("{moves:?} beside modify, get, a death"), moving(dying(stored(&[Modify, Get])), moves));
            assert_sound(&format!("{moves:?} beside delete, get"), moving(stored(&[Delete, Get]), moves));
            assert_sound(&format!("{moves:?} beside modify, get, get"), moving(stored(&[Modify, Get, Get]), moves));
        }
    }
}

/// A host that lags leads there, since the chunk once stood there; what was brought is settled, or becomes so, and is older than what is written to the
/// other places after it.
#[test]
fn a_target_that_was_given_up_must_answer_nobody() {
    broken(moving(stored(&[Modify, Get]), Moves::GivesUpFormer), Wrong::LeavesTheGivenUp, "newest");
    if soaking() {
        broken(moving(stored(&[Get, Modify, Get]), Moves::GivesUpFormer), Wrong::BringsUnsettled, "newest");
        broken(moving(stored(&[Modify, Get]), Moves::Retargets), Wrong::LeavesTheGivenUp, "newest");
        assert_sound("Retargets beside modify, get", moving(stored(&[Modify, Get]), Moves::Retargets));
    }
}

#[test]
fn a_chunk_ends_at_targets_that_were_given_up_as_well() {
    broken(moving(stored(&[Delete, Get]), Moves::GivesUpFormer), Wrong::ErasesNoGivenUp, "newest");
}

#[test]
fn a_growing_chunk_must_change_its_era() {
    broken(moving(stored(&[Modify, Get]), Moves::Grows), Wrong::GrowsWithoutEra, "newest");
}

/// The number alone is not enough: who knows the former places completes a write there in the new era.
#[test]
fn an_era_must_tell_how_many_places_it_has() {
    for moves in [Moves::Grows, Moves::GrowsThird] {
        broken(moving(stored(&[Modify, Get]), moves), Wrong::CountsNoPlaces, "newest");
        broken(moving(stored(&[Delete, Get]), moves), Wrong::CountsNoPlaces, "newest");
    }
}

#[test]
fn a_place_that_may_answer_must_stay() {
    broken(moving(stored(&[Modify, Get]), Moves::Shrinks), Wrong::GivesUpTheSilent, "newest");
    broken(moving(stored(&[Delete, Get]), Moves::Shrinks), Wrong::GivesUpTheSilent, "newest");
}

#[test]
fn a_put_needs_two_copies() {
    let alone = ChunkStore { hosts: 1, ..calls(&[Put]) };
    assert_sound("a put with one host", alone.clone());
    broken(alone, Wrong::AcksOneCopy, "two copies");
}

#[test]
fn ids_must_be_compared() {
    broken(calls(&[Put, Get]), Wrong::ComparesNoIds, "own bytes");
}

#[test]
fn absence_must_be_asked_about() {
    broken(calls(&[Put, Get]), Wrong::BelievesAbsence, "newest");
    broken(moving(calls(&[Put, Get, Get]), Moves::Relocates), Wrong::DoesNotAskAgain, "newest");
}

#[test]
fn a_put_needs_its_commit() {
    broken(calls(&[Put]), Wrong::AcksBeforeCommit, "kept");
}

#[test]
fn readers_must_help() {
    broken(stored(&[Modify, Get, Get]), Wrong::ReturnsUnsettled, "newest");
    broken(stored(&[Delete, Get, Get]), Wrong::BelievesTheDead, "newest");
}

#[test]
fn a_source_must_depart() {
    broken(moving(stored(&[Modify, Get]), Moves::Relocates), Wrong::SourceAnswers, "newest");
}

#[test]
fn a_departed_copy_is_not_a_dead_one() {
    broken(moving(stored(&[Delete, Get]), Moves::Relocates), Wrong::ErasesDeparted, "newest");
}

#[test]
fn survivors_must_change_their_era() {
    broken(moving(stored(&[Modify, Get]), Moves::Repairs), Wrong::NoEras, "newest");
}

#[test]
fn dead_copies_have_eras() {
    broken(moving(stored(&[Delete, Get]), Moves::Repairs), Wrong::DeadInAllEras, "newest");
}

#[test]
fn space_needs_fences() {
    broken(calls(&[Put]), Wrong::NoFences, "released");
    broken(moving(stored(&[Delete]), Moves::Relocates), Wrong::NoFences, "released");
}

#[test]
fn a_write_keeps_its_version() {
    broken(stored(&[Modify, Modify, Get]), Wrong::NewVersions, "once");
}

#[test]
fn copies_are_forgotten_when_all_are_dead() {
    broken(stored(&[Delete, Get, Get]), Wrong::ForgetsAlone, "newest");
}
