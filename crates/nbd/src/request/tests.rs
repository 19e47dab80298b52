use super::*;
use crate::export::ExportFacts;
use crate::limits::{MAX_PAYLOAD_BYTES, PIECE_BYTES};
use proptest::prelude::*;

const SIZE: u64 = 64 * 1024 * 1024;

fn facts() -> ExportFacts {
    ExportFacts { size_bytes: SIZE, can_trim: true, can_cache: true, can_zero_fast: true, ..ExportFacts::default() }
}

fn all_rules() -> RequestRules {
    RequestRules::new(facts(), true, true)
}

fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &cookie.to_be_bytes()].concat();
    [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

/// All events of the bytes, which come in pieces of at most `cut`.
fn decode(rules: RequestRules, mut bytes: &[u8], cut: usize) -> (Vec<RequestEvent>, Option<Violation>) {
    let mut decoder = RequestDecoder::new(rules, BytesMut::new(), 0);
    let mut events = Vec::new();
    loop {
        match decoder.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) if bytes.is_empty() => return (events, None),
            Ok(None) => {
                let mut space = decoder.space();
                let count = space.remaining_mut().min(bytes.len()).min(cut);
                assert!(count > 0, "there is room for more");
                space.put_slice(&bytes[..count]);
                bytes = &bytes[count..];
            }
            Err(violation) => return (events, Some(violation)),
        }
    }
}

/// The one event of a request.
fn one(rules: &RequestRules, flags: u16, kind: u16, offset: u64, length: u32) -> Result<Command, Errno> {
    let (events, violation) = decode(rules.clone(), &request(flags, kind, 9, offset, length), usize::MAX);
    assert_eq!(violation, None);
    match &events[..] {
        [RequestEvent::Request { cookie: Cookie(9), command }] => Ok(*command),
        [RequestEvent::Refused { cookie: Cookie(9), error, .. }] => Err(*error),
        other => panic!("one event: {other:?}"),
    }
}

fn span(offset: u64, length: u32) -> Span {
    Span { offset, length }
}

#[test]
fn golden_bytes_of_a_request() {
    let bytes =
        b"\x25\x60\x95\x13\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x10\x00";
    let (events, violation) = decode(all_rules(), bytes, usize::MAX);
    let command = Command::Read { span: span(0x10000, 0x1000), is_whole: false };
    assert_eq!((events, violation), (vec![RequestEvent::Request { cookie: Cookie(0x0102_0304_0506_0708), command }], None));
}

#[test]
fn each_command_with_its_flags() {
    let rules = all_rules();
    let here = span(4096, 512);
    let read = |is_whole| Ok(Command::Read { span: here, is_whole });
    assert_eq!(one(&rules, 0, 0, 4096, 512), read(false));
    assert_eq!(one(&rules, 4, 0, 4096, 512), read(true));
    assert_eq!(one(&RequestRules::new(facts(), false, false), 0, 0, 4096, 512), read(true));
    assert_eq!(one(&rules, 1, 1, 4096, 512), Ok(Command::Write { span: here, force_unit_access: true }));
    assert_eq!(one(&rules, 0, 3, 0, 0), Ok(Command::Flush));
    assert_eq!(one(&rules, 1, 3, 0, 0), Ok(Command::Flush));
    assert_eq!(one(&rules, 1, 4, 4096, 512), Ok(Command::Trim { span: here, force_unit_access: true }));
    assert_eq!(one(&rules, 0, 5, 4096, 512), Ok(Command::Cache { span: here }));
    let flags = WriteZerosFlags { force_unit_access: false, keep_allocated: true, only_if_fast: true };
    assert_eq!(one(&rules, 0x12, 6, 4096, 512), Ok(Command::WriteZeros { span: here, flags }));
    assert_eq!(one(&rules, 8, 7, 4096, 512), Ok(Command::BlockStatus { span: here, is_one: true }));
    // Without a payload, more than the maximum payload is fine.
    let all = span(0, SIZE as u32);
    assert_eq!(one(&rules, 0, 4, 0, SIZE as u32), Ok(Command::Trim { span: all, force_unit_access: false }));
    assert_eq!(one(&rules, 0, 7, 0, SIZE as u32), Ok(Command::BlockStatus { span: all, is_one: false }));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let all = all_rules();
    let bare = RequestRules::new(ExportFacts { size_bytes: SIZE, ..ExportFacts::default() }, false, false);
    let read_only = RequestRules::new(ExportFacts { is_read_only: true, ..facts() }, true, true);
    let end = SIZE;
    let cases = [
        // Beyond the end: no space for writes, invalid for the rest; also where offset and length overflow.
        (&all, 0, 0, end, 512, Errno::Invalid),
        (&all, 0, 0, end - 512, 1024, Errno::Invalid),
        (&all, 0, 1, end, 512, Errno::NoSpace),
        (&all, 0, 6, end - 512, 1024, Errno::NoSpace),
        (&all, 0, 4, end, 512, Errno::Invalid),
        (&all, 0, 5, end, 512, Errno::Invalid),
        (&all, 0, 7, end, 512, Errno::Invalid),
        (&all, 0, 0, u64::MAX - 511, 512, Errno::Invalid),
        (&all, 0, 1, u64::MAX - 511, 1024, Errno::NoSpace),
        // Unaligned and empty.
        (&all, 0, 0, 1, 512, Errno::Invalid),
        (&all, 0, 0, 0, 511, Errno::Invalid),
        (&all, 0, 1, 256, 512, Errno::Invalid),
        (&all, 0, 1, 0, 100, Errno::Invalid),
        (&all, 0, 4, 0, 513, Errno::Invalid),
        (&all, 0, 0, 0, 0, Errno::Invalid),
        (&all, 0, 1, 0, 0, Errno::Invalid),
        (&all, 0, 7, 0, 0, Errno::Invalid),
        // Too long.
        (&all, 0, 0, 0, MAX_PAYLOAD_BYTES + 512, Errno::Overflow),
        (&bare, 0, 0, 0, MAX_PAYLOAD_BYTES + 512, Errno::Invalid),
        (&all, 0, 1, 0, MAX_PAYLOAD_BYTES + 512, Errno::Invalid),
        // A flush of a part.
        (&all, 0, 3, 512, 0, Errno::Invalid),
        (&all, 0, 3, 0, 512, Errno::Invalid),
        // Commands and flags that do not exist, or that were not offered.
        (&all, 0, 8, 0, 512, Errno::Invalid),
        (&all, 0, 0xffff, 0, 512, Errno::Invalid),
        (&all, 2, 0, 0, 512, Errno::Invalid),
        (&all, 2, 1, 0, 512, Errno::Invalid),
        (&all, 4, 1, 0, 512, Errno::Invalid),
        (&all, 8, 0, 0, 512, Errno::Invalid),
        (&all, 0x20, 1, 0, 512, Errno::Invalid),
        (&all, 0x8000, 7, 0, 512, Errno::Invalid),
        (&bare, 4, 0, 0, 512, Errno::Invalid),
        (&bare, 0x10, 6, 0, 512, Errno::Invalid),
        (&bare, 0, 4, 0, 512, Errno::Invalid),
        (&bare, 0, 5, 0, 512, Errno::Invalid),
        (&bare, 0, 7, 0, 512, Errno::Invalid),
        // Changes of what is read-only.
        (&read_only, 0, 1, 0, 512, Errno::NotPermitted),
        (&read_only, 0, 4, 0, 512, Errno::NotPermitted),
        (&read_only, 0, 6, 0, 512, Errno::NotPermitted),
    ];
    for (rules, flags, kind, offset, length, error) in cases {
        assert_eq!(one(rules, flags, kind, offset, length), Err(error), "command {kind}, flags {flags}, {offset} {length}");
    }
}

#[test]
fn flags_say_what_the_export_can() {
    assert_eq!(all_rules().transmission_flags(), 0b1100_1110_1101);
    let bare = ExportFacts { size_bytes: 0, ..ExportFacts::default() };
    assert_eq!(RequestRules::new(bare, false, false).transmission_flags(), 0b100_1101);
    let read_only = ExportFacts { is_read_only: true, is_coherent_across_connections: true, ..facts() };
    assert_eq!(RequestRules::new(read_only, false, false).transmission_flags(), 0b101_0000_1111);
}

#[test]
fn a_small_write_is_one_piece_cut_out_of_the_buffer() {
    let bytes = [request(0, 1, 1, 4096, 1024), vec![7; 1024], request(0, 2, 0, 0, 0)].concat();
    let (events, violation) = decode(all_rules(), &bytes, usize::MAX);
    let command = Command::Write { span: span(4096, 1024), force_unit_access: false };
    let expected = vec![
        RequestEvent::Request { cookie: Cookie(1), command },
        RequestEvent::Payload { offset: 4096, data: vec![7; 1024].into(), is_last: true },
        RequestEvent::Disconnect,
    ];
    assert_eq!((events, violation), (expected, None));
}

#[test]
fn a_large_write_comes_in_aligned_pieces() {
    let piece = u64::from(PIECE_BYTES);
    let (offset, length) = (piece - 4096, 2 * PIECE_BYTES);
    let payload: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
    let (events, _) = decode(all_rules(), &[request(0, 1, 1, offset, length), payload.clone()].concat(), 10_000);
    let pieces: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RequestEvent::Payload { offset, data, is_last } => Some((*offset, data.clone(), *is_last)),
            _ => None,
        })
        .collect();
    let places: Vec<_> = pieces.iter().map(|(offset, data, is_last)| (*offset, data.len() as u64, *is_last)).collect();
    assert_eq!(places, [(offset, 4096, false), (piece, piece, false), (2 * piece, piece - 4096, true)]);
    assert_eq!(pieces.iter().flat_map(|(_, data, _)| data.to_vec()).collect::<Vec<_>>(), payload);
    for (_, data, _) in &pieces[1..] {
        assert_eq!(data.as_ptr().align_offset(PAYLOAD_ALIGNMENT_BYTES), 0, "large pieces can be written as they are");
    }
}

#[test]
fn the_payload_of_a_refused_write_is_skipped() {
    let next = request(0, 3, 2, 0, 0);
    for (length, payload) in [(100, 100), (MAX_PAYLOAD_BYTES + 512, MAX_PAYLOAD_BYTES + 512)] {
        let bytes = [request(0, 1, 1, 0, length), vec![7; payload as usize], next.clone()].concat();
        let (events, violation) = decode(all_rules(), &bytes, 100_000);
        assert_eq!((events.len(), violation), (2, None));
        assert!(matches!(events[0], RequestEvent::Refused { cookie: Cookie(1), error: Errno::Invalid, .. }), "{events:?}");
        assert_eq!(events[1], RequestEvent::Request { cookie: Cookie(2), command: Command::Flush });
    }
}

#[test]
fn what_can_not_be_followed_ends_the_connection() {
    let (events, violation) = decode(all_rules(), &[request(0, 3, 1, 0, 0), b"\x25\x60\x95\x14".to_vec()].concat(), 1);
    assert_eq!((events.len(), violation), (1, Some(Violation::RequestMagic { offset: 28, found: 0x2560_9514 })));
    // The first wrong byte is enough.
    let (_, violation) = decode(all_rules(), b"G", 1);
    assert_eq!(violation, Some(Violation::RequestMagic { offset: 0, found: 0x4700_0000 }));
    let (_, violation) = decode(all_rules(), &request(0, 1, 1, 0, MAX_SKIPPED_BYTES + 1), 28);
    assert_eq!(violation, Some(Violation::WriteLength { found: MAX_SKIPPED_BYTES + 1 }));
}

#[test]
fn a_payload_that_is_not_wanted_is_skipped() {
    let bytes = [request(0, 1, 1, 0, 4096), vec![7; 4096], request(0, 3, 2, 0, 0)].concat();
    let mut decoder = RequestDecoder::new(all_rules(), BytesMut::from(&bytes[..]), 0);
    assert!(matches!(decoder.next_event(), Ok(Some(RequestEvent::Request { .. }))));
    assert_eq!(decoder.next_piece_bytes(), Some(4096));
    decoder.skip_payload();
    let flush = RequestEvent::Request { cookie: Cookie(2), command: Command::Flush };
    assert_eq!(decoder.next_event(), Ok(Some(flush)));
    assert!(!decoder.is_within_request());
}

#[test]
fn the_read_buffer_does_not_grow() {
    // A hundred megabytes of writes of which each is dropped before the next comes.
    let mut decoder = RequestDecoder::new(all_rules(), BytesMut::new(), 0);
    let one = [request(0, 1, 1, 0, 4096), vec![7; 4096]].concat();
    let mut stream = one.iter().copied().cycle();
    for _ in 0..25_000 {
        while let Some(event) = decoder.next_event().expect("sound requests") {
            drop(event);
        }
        let mut space = decoder.space();
        let free = space.remaining_mut();
        assert!((1..=2 * READ_BUFFER_BYTES).contains(&free), "{free} bytes of room");
        let bytes: Vec<u8> = stream.by_ref().take(free.min(4_124)).collect();
        space.put_slice(&bytes);
    }
}

fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![Just(0_u32), Just(512), Just(4096), Just(70_000 / 512 * 512), Just(3 << 20), 0..5000_u32];
    let offset = prop_oneof![Just(0_u64), Just((1 << 20) - 512), 0..SIZE, Just(SIZE)];
    let kind = prop_oneof![Just(1_u16), 0..9_u16];
    (0..40_u16, kind, any::<u64>(), offset, length).prop_map(|(flags, kind, cookie, offset, length)| {
        let payload = if kind == 1 { vec![cookie as u8; length as usize] } else { Vec::new() };
        [request(if flags > 31 { flags } else { flags & 1 }, kind, cookie, offset & !511, length), payload].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cuts_do_not_matter(requests in proptest::collection::vec(any_request(), 0..6), cut in 1..100_000_usize, more in any::<[u8; 2]>()) {
        let bytes = [requests.concat(), more.to_vec()].concat();
        let (whole, cut) = (decode(all_rules(), &bytes, usize::MAX), decode(all_rules(), &bytes, cut));
        prop_assert_eq!(&whole.0, &cut.0);
        prop_assert_eq!(whole.1.is_some(), cut.1.is_some());
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 1..40_usize) {
        decode(all_rules(), &bytes, cut);
        decode(all_rules(), &[request(0, 1, 1, 0, 512), bytes].concat(), cut);
    }
}
