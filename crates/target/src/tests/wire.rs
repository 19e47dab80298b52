use bytes::Bytes;
use device::{AppendClass, Appended, LogVector, PieceOfFrame, Usage, ZoneInfo, ZoneState, ZoneStream};
use types::{Activation, DeviceId, ErrorKind, Place, Position, Token, ZoneIndex, ZoneOffset};

use crate::wire::{
    AppendAnswer, AppendAnswers, AppendPart, Ask, Failure, Fault, PageEvent, Request, TargetState, WalkPage, WalkRest, Wire,
    decode_answer, encode_answer,
};
use crate::{FenceKey, FenceKind, FrameRead, PieceRead, WalkRange, Writer};

fn writer(kind: FenceKind) -> Writer {
    Writer { key: FenceKey { kind, scope: u64::MAX - 1 }, token: Token(0x0102_0304_0506_0708) }
}

fn at(activation: u64, offset: u32) -> Position {
    Position { activation: Activation(activation), offset: ZoneOffset(offset) }
}

fn asks() -> Vec<Ask> {
    let gateway = writer(FenceKind::Gateway);
    let (zone, offset) = (ZoneIndex(7), ZoneOffset(9));
    let vector = LogVector { ordered: at(1, 2), relocated: at(3, 4), meta: at(5, 6) };
    let mut asks = vec![
        Ask::OpenSession { writer: gateway },
        Ask::Read { zone, offset, expected_bytes: 4096 },
        Ask::ReadPiece { zone, offset, wanted: PieceOfFrame { engine_header_bytes: 1, payload_bytes: 2, range: 3..4 } },
        Ask::Walk { range: WalkRange::From(vector), until: Activation(u64::MAX), verify_payload: true },
        Ask::Walk { range: WalkRange::Zone(zone), until: Activation(0), verify_payload: false },
        Ask::Floor,
        Ask::State,
        Ask::Reset { writer: gateway, zone, activation: Activation(11) },
        Ask::FinishReserved { writer: writer(FenceKind::PlacementGroup) },
        Ask::FinishOpen { writer: writer(FenceKind::Image) },
        Ask::RaiseFence { writer: writer(FenceKind::Shard) },
        Ask::LoadFences { fences: vec![gateway, writer(FenceKind::DataPartition)] },
        Ask::LoadFences { fences: Vec::new() },
        Ask::Drain,
    ];
    let part = |class| AppendPart { class, frame: Bytes::from_static(b"any bytes") };
    for parts in [Vec::new(), vec![part(AppendClass::Tombstone)], AppendClass::ALL.map(part).to_vec()] {
        asks.push(Ask::Append { writer: gateway, session: 5, parts });
    }
    asks
}

#[test]
fn requests_come_back_as_they_were_and_no_part_of_one_is_one() {
    for ask in asks() {
        let request = Request { device: DeviceId(3), ask };
        let bytes = request.encode();
        assert_eq!(Request::decode(bytes.clone()).as_ref(), Ok(&request));
        for length in 0..bytes.len() {
            let part = Request::decode(bytes.slice(..length));
            assert!(part.is_err(), "{length} of {request:?}: {part:?}");
        }
        let longer = Request::decode([&bytes[..], &[0]].concat().into());
        assert!(longer.is_err(), "{longer:?}");
    }
}

fn survives<T: Wire + PartialEq + std::fmt::Debug>(answer: T, has_open_end: bool) {
    let answer: Result<T, Failure> = Ok(answer);
    let bytes = encode_answer(&answer);
    assert_eq!(decode_answer::<T>(bytes.clone()).as_ref(), Ok(&answer));
    for length in 0..bytes.len() {
        let part = decode_answer::<T>(bytes.slice(..length));
        assert!(part.is_err() || has_open_end, "{length} of {answer:?}: {part:?}");
    }
    // Whatever comes, it is an answer or an error.
    for index in 0..bytes.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = bytes.to_vec();
            changed[index] ^= change;
            drop(decode_answer::<T>(changed.into()));
        }
    }
}

#[test]
fn answers_come_back_as_they_were() {
    let place = Place { device: DeviceId(1), zone: ZoneIndex(2), offset: ZoneOffset(3) };
    let appended = Appended { place, position: at(9, 3), frame_bytes: 640 };
    let failure = Failure { fault: Fault::Refused(ErrorKind::Full), reason: "full".to_owned() };
    let answers: AppendAnswers = vec![Ok(AppendAnswer { appended, is_writable: true, open_room: 17 }), Err(failure)];
    survives(answers, false);
    survives(AppendAnswers::new(), false);
    survives(77u64, false);
    survives((), false);
    let (engine_header, bytes) = (Bytes::from_static(b"header"), Bytes::from_static(b"payload"));
    survives(FrameRead { engine_header: engine_header.clone(), payload: bytes.clone() }, true);
    survives(PieceRead { engine_header: engine_header.clone(), payload_bytes: 100, piece: bytes }, true);
    survives(LogVector { ordered: at(1, 2), relocated: at(3, 4), meta: at(5, 6) }, false);
    let usage = Usage {
        zones: 3,
        zone_bytes: 4,
        capacity_bytes: 5,
        written_bytes: 6,
        free_zones: 7,
        free_data_zones: 8,
        lent_zones: 9,
        lendable_zones: 10,
        is_lending_refused: true,
    };
    let states = [(None, None), (Some(ZoneState::Open), Some(ZoneStream::Meta)), (Some(ZoneState::Free), None)];
    let zone = |(index, (state, stream))| {
        let activation = Activation(index as u64 + 5);
        ZoneInfo { zone: ZoneIndex(index as u32), state, stream, activation, written_bytes: 9 }
    };
    let zones = states.into_iter().enumerate().map(zone).collect();
    survives(TargetState { is_writable: false, usage, open_room: [1, 2, 3], zones }, false);
    let events = vec![
        PageEvent::Frame { zone: ZoneIndex(1), position: at(2, 3), frame_bytes: 64, engine_header },
        PageEvent::Damaged { zone: ZoneIndex(1), position: at(2, 4), damage: "torn".to_owned() },
        PageEvent::Unreadable { zone: ZoneIndex(1), position: at(2, 5), bytes: 4096, reason: "EIO".to_owned() },
    ];
    let rest = Some(WalkRest { from: LogVector::uniform(at(2, 6)), until: Activation(8) });
    survives(WalkPage { events, rest }, false);
    survives(WalkPage { events: Vec::new(), rest: None }, false);
}

#[test]
fn failures_keep_their_kind() {
    let kinds = [
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::PreconditionFailed,
        ErrorKind::Invalid,
        ErrorKind::Denied,
        ErrorKind::Full,
        ErrorKind::Unavailable,
        ErrorKind::Corrupt,
        ErrorKind::Busy,
        ErrorKind::Timeout,
        ErrorKind::Internal,
    ];
    let faults = kinds.map(Fault::Refused).into_iter().chain([Fault::OtherSession, Fault::Unknown]);
    for fault in faults {
        let failure = Failure { fault, reason: format!("{fault:?}") };
        let decoded = decode_answer::<()>(encode_answer::<()>(&Err(failure.clone())));
        assert_eq!(decoded, Ok(Err(failure)));
    }
}

/// A list that is said to be longer than its message is refused before room is made for it.
#[test]
fn a_count_is_believed_only_if_its_items_can_be_there() {
    let mut request = Request { device: DeviceId(3), ask: Ask::LoadFences { fences: Vec::new() } }.encode().to_vec();
    let count = request.len() - 4;
    request[count..].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Request::decode(request.into()).expect_err("too many");
    assert!(error.to_string().contains("are left"), "{error}");
}
