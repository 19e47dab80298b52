use proptest::prelude::*;
use types::DeviceId;

use super::{ChunkCommand, ClientCall, CopyOf, FormerCopy, PageRange, Registration, Relocation};
use crate::chunk_block::Era;
use crate::chunk_id::tests::{any_id, id};
use crate::chunk_id::{ChunkNonce, ChunkNumber};
use crate::chunk_page::ChunkRow;
use crate::chunk_page::tests::{any_row, any_wanted_places};
use crate::chunk_place::ChunkPlaces;
use crate::chunk_place::tests::{any_place, place};

fn hex(command: &ChunkCommand) -> String {
    command.encode().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden() {
    let id = id(1, 2, 3);
    let (from, to) = (place(1, 2), place(3, 4));
    let places = ChunkPlaces::new(&[from]).expect("one");
    let call = ClientCall { session: 5, request: 6 };
    let registration = Registration { call, nonce: ChunkNonce(7), bytes: 8, places, wanted: 3, deadline_ms: 9 };
    let copy = CopyOf { id, place: from };
    let former = FormerCopy { copy, era: Era(0x0102_0304) };
    let (id_hex, from_hex, to_hex) = ("0100000002000000000000000300000000000000", "0200000400000000", "0400000c00000000");
    let registered = "05000000060000000700000000000000080000000200000400fcffffffffffffffffff3f030900000000000000";
    let range = PageRange { first: ChunkNumber(10), last: ChunkNumber(11) };
    let row = ChunkRow { number: ChunkNumber(2), nonce: ChunkNonce(3), places, bytes: 4, wanted: 2, era: Era(5) };
    let row_hex = "020000000000000003000000000000000200000400fcffffffffffffffffff3f0400000205000000";
    let former_hex = format!("{id_hex}{from_hex}04030201");
    let none_hex = "ff".repeat(8);
    let relocate = |from, to, is_lost| ChunkCommand::Relocate(Relocation { id, from, to, is_lost });
    let rows = [
        (ChunkCommand::Grant { device: DeviceId(1), first_block: 2, blocks: 3 }, "0201010000000200000003000000".to_owned()),
        (ChunkCommand::Register(registration), format!("0202{registered}")),
        (ChunkCommand::Commit(id), format!("0203{id_hex}")),
        (ChunkCommand::Revoke(id), format!("0204{id_hex}")),
        (ChunkCommand::Expire { now_ms: 1 }, "02050100000000000000".to_owned()),
        (ChunkCommand::Freed(vec![id]), format!("02060100{id_hex}")),
        (ChunkCommand::Erased(vec![copy]), format!("02070100{id_hex}{from_hex}")),
        (ChunkCommand::Forgotten(vec![former, former]), format!("02080200{former_hex}{former_hex}")),
        (relocate(Some(from), Some(to), false), format!("0209{id_hex}{from_hex}{to_hex}00")),
        (relocate(None, Some(to), false), format!("0209{id_hex}{none_hex}{to_hex}00")),
        (relocate(Some(from), None, true), format!("0209{id_hex}{from_hex}{none_hex}01")),
        (relocate(None, None, false), format!("0209{id_hex}{none_hex}{none_hex}00")),
        (ChunkCommand::Moved { id, relocation: 7 }, format!("020a{id_hex}0700000000000000")),
        (ChunkCommand::Release { device: DeviceId(1), first_block: 2, blocks: 3 }, "020b010000000200000003000000".to_owned()),
        (ChunkCommand::Released { device: DeviceId(1), first_block: 2 }, "020c0100000002000000".to_owned()),
        (ChunkCommand::RegisterPage { registration, range }, format!("020d{registered}0a000000000000000b00000000000000")),
        (ChunkCommand::Touch { page: ChunkNumber(1), rows: vec![row] }, format!("020e01000000000000000100{row_hex}")),
        (ChunkCommand::Seal, "020f".to_owned()),
    ];
    for (command, expected) in rows {
        assert_eq!(hex(&command), expected, "{command:?}");
    }
}

/// A unit would otherwise make copies for ever, or have fewer than it says.
#[test]
fn a_registration_wants_as_many_copies_as_it_has_places_or_more() {
    let places = ChunkPlaces::new(&[place(1, 2), place(2, 2)]).expect("two");
    let call = ClientCall { session: 5, request: 6 };
    for (wanted, is_good) in [(0, false), (1, false), (2, true), (3, true), (4, false)] {
        let registration = Registration { call, nonce: ChunkNonce(7), bytes: 8, places, wanted, deadline_ms: 9 };
        let read = ChunkCommand::decode(&ChunkCommand::Register(registration).encode());
        assert_eq!(read.is_ok(), is_good, "{wanted} wanted: {read:?}");
    }
}

fn any_command() -> impl Strategy<Value = ChunkCommand> {
    let copies = || prop::collection::vec((any_id(), any_place()).prop_map(|(id, place)| CopyOf { id, place }), 0..5);
    let former = (any_id(), any_place(), any::<u32>())
        .prop_map(|(id, place, era)| FormerCopy { copy: CopyOf { id, place }, era: Era(era) });
    let registration = || {
        (any::<(u32, u32, u64, u32, u64)>(), any_wanted_places()).prop_map(|(numbers, (places, wanted))| {
            let (session, request, nonce, bytes, deadline_ms) = numbers;
            let call = ClientCall { session, request };
            Registration { call, nonce: ChunkNonce(nonce), bytes, places, wanted, deadline_ms }
        })
    };
    let range = any::<(u64, u64)>().prop_map(|(first, last)| PageRange { first: ChunkNumber(first), last: ChunkNumber(last) });
    let touched = (any::<u64>(), prop::collection::vec(any_row(), 0..5));
    prop_oneof![
        any::<(u32, u32, u32)>().prop_map(|(device, first_block, blocks)| {
            ChunkCommand::Grant { device: DeviceId(device), first_block, blocks }
        }),
        registration().prop_map(ChunkCommand::Register),
        (registration(), range).prop_map(|(registration, range)| ChunkCommand::RegisterPage { registration, range }),
        touched.prop_map(|(page, rows)| ChunkCommand::Touch { page: ChunkNumber(page), rows }),
        any_id().prop_map(ChunkCommand::Commit),
        any_id().prop_map(ChunkCommand::Revoke),
        any::<u64>().prop_map(|now_ms| ChunkCommand::Expire { now_ms }),
        prop::collection::vec(any_id(), 0..5).prop_map(ChunkCommand::Freed),
        copies().prop_map(ChunkCommand::Erased),
        prop::collection::vec(former, 0..5).prop_map(ChunkCommand::Forgotten),
        (any_id(), prop::option::of(any_place()), prop::option::of(any_place()), any::<bool>())
            .prop_map(|(id, from, to, is_lost)| ChunkCommand::Relocate(Relocation { id, from, to, is_lost })),
        (any_id(), any::<u64>()).prop_map(|(id, relocation)| ChunkCommand::Moved { id, relocation }),
        any::<(u32, u32, u32)>().prop_map(|(device, first_block, blocks)| {
            ChunkCommand::Release { device: DeviceId(device), first_block, blocks }
        }),
        any::<(u32, u32)>().prop_map(|(device, first_block)| ChunkCommand::Released { device: DeviceId(device), first_block }),
        Just(ChunkCommand::Seal),
    ]
}

proptest! {
    #[test]
    fn round_trip(command in any_command()) {
        prop_assert_eq!(ChunkCommand::decode(&command.encode()), Ok(command));
    }

    #[test]
    fn what_is_accepted_is_written_the_same(mut bytes in prop::collection::vec(any::<u8>(), 2..90), kind in 0_u8..17) {
        (bytes[0], bytes[1]) = (super::CHUNK_COMMAND_VERSION, kind);
        if let Ok(read) = ChunkCommand::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
