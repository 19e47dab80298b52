//! A gateway that joins, before and after it has its maps.

use super::super::{Cell, CellMessage, FreezeId, Message, Output, Outputs, SequenceSource, Shard};
use super::turns::entry;
use super::world::{gateway_id, key_hash, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::record::WriteId;
use std::sync::Arc;
use types::{Sequence, ViewNumber};

const VIEW: ViewNumber = ViewNumber(1);

/// What the gateway tells a holder about a key.
fn told(shard: &mut Shard<u32>, key: usize, freeze: u64) -> Option<Located> {
    let mut out = Outputs::new();
    let message = Message::Freeze { hash: key_hash(key), holder: gateway_id(0), freeze: FreezeId(freeze), view: VIEW };
    shard.receive(gateway_id(0), message, &mut out);
    match &out[..] {
        [Output::Send { message: Message::Frozen { newest, .. }, .. }] => *newest,
        other => panic!("{other:?}"),
    }
}

/// While it loads the runs of a checkpoint its index may have an object that a later run deletes, and that nobody else remembers: the
/// condition of a write must not be judged by it.
#[test]
fn a_gateway_that_loads_its_maps_tells_no_holder_what_it_has_found() {
    let cell = Arc::new(Cell::new(gateway_id(1), view(VIEW.0, &[0, 1])));
    let mut shard = Shard::joining(cell, Arc::new(SequenceSource::starting_at(10)), ShardIndex::new(IndexForm::Full, 1), &[]);
    shard.receive_for_all(gateway_id(0), &CellMessage::Carried { view: VIEW }, &mut Outputs::new());
    let old = entry(WriteId { gateway: gateway_id(0), sequence: Sequence(1) }, 0, 7);
    shard.index_mut().publish(old).unwrap();
    assert_eq!(told(&mut shard, 0, 1), None);
    shard.maps_are_complete();
    let other = entry(WriteId { gateway: gateway_id(0), sequence: Sequence(2) }, 1, 8);
    shard.index_mut().publish(other).unwrap();
    assert_eq!(told(&mut shard, 1, 2), Some(Located::from(&other)));
}
