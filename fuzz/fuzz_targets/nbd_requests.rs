//! The decoder of NBD requests, cut in two ways and against a plain reading of the same bytes: each request comes out once, with
//! its payload, and what comes out keeps the rules.
#![no_main]

use arbitrary::Arbitrary;
use bytes::{BufMut, BytesMut};
use libfuzzer_sys::{arbitrary, fuzz_target};
use nbd::{
    Command, Cookie, ExportFacts, MAX_PAYLOAD_BYTES, MAX_SKIPPED_BYTES, PIECE_BYTES, REQUEST_BYTES, RequestDecoder,
    RequestEvent, RequestRules, Span,
};

const SIZE: u64 = 8 << 20;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;

#[derive(Arbitrary, Debug)]
enum Piece {
    Raw(Vec<u8>),
    Request { flags: u16, kind: u8, cookie: u8, block: u16, blocks: u16, off: u8, shift: u8, payload: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    is_structured: bool,
    has_map: bool,
    is_read_only: bool,
    can: bool,
    pieces: Vec<Piece>,
    cut: u16,
}

fuzz_target!(|input: Input| {
    let facts = ExportFacts {
        size_bytes: SIZE,
        is_read_only: input.is_read_only,
        can_trim: input.can,
        can_cache: input.can,
        can_zero_fast: input.can,
        ..ExportFacts::default()
    };
    let rules = RequestRules::new(facts, input.is_structured, input.has_map);
    let bytes = bytes_of(&input);
    let (whole, is_whole_sound) = decode(&rules, &bytes, bytes.len());
    let (cut, is_cut_sound) = decode(&rules, &bytes, (usize::from(input.cut) + 1).max(bytes.len() / 100));
    assert_eq!(whole, cut);
    assert_eq!(is_whole_sound, is_cut_sound);
    compare(&bytes, &whole, is_whole_sound);
});

fn bytes_of(input: &Input) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in &input.pieces {
        match piece {
            Piece::Raw(raw) => bytes.extend(raw),
            Piece::Request { flags, kind, cookie, block, blocks, off, shift, payload } => {
                let offset = (u64::from(*block) * 512) << (shift % 40);
                // Long payloads take long, so few are.
                let blocks = if *block == 0 { *blocks % 5000 } else { *blocks % 100 };
                let length = u32::from(blocks) * 512 + u32::from(*off % 2);
                bytes.put_u32(0x2560_9513);
                bytes.put_u16(if *flags < 64 { *flags } else { flags & 1 });
                bytes.put_u16(u16::from(*kind % 10));
                bytes.put_u64(u64::from(*cookie));
                bytes.put_u64(offset);
                bytes.put_u32(length);
                if u16::from(*kind % 10) == WRITE {
                    bytes.put_bytes(*payload, length as usize);
                }
            }
        }
    }
    bytes
}

fn decode(rules: &RequestRules, mut bytes: &[u8], cut: usize) -> (Vec<RequestEvent>, bool) {
    let mut decoder = RequestDecoder::new(rules.clone(), BytesMut::new(), 0);
    let mut events = Vec::new();
    loop {
        match decoder.next_event() {
            Err(_) => return (events, false),
            Ok(Some(event)) => {
                let is_over = event == RequestEvent::Disconnect;
                events.push(event);
                if is_over {
                    return (events, true);
                }
            }
            Ok(None) if bytes.is_empty() => return (events, true),
            Ok(None) => {
                let mut space = decoder.space();
                let count = space.remaining_mut().min(bytes.len()).min(cut);
                space.put_slice(&bytes[..count]);
                bytes = &bytes[count..];
            }
        }
    }
}

fn number<const N: usize>(bytes: &[u8]) -> u64 {
    let bytes: [u8; N] = bytes[..N].try_into().expect("enough bytes");
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Reads the bytes in the plainest way and finds the same requests.
fn compare(mut bytes: &[u8], events: &[RequestEvent], is_sound: bool) {
    let mut events = events.iter().peekable();
    while bytes.len() >= REQUEST_BYTES && bytes[..4] == 0x2560_9513_u32.to_be_bytes() {
        let (kind, cookie) = (number::<2>(&bytes[6..]) as u16, Cookie(number::<8>(&bytes[8..])));
        let span = Span { offset: number::<8>(&bytes[16..]), length: number::<4>(&bytes[24..]) as u32 };
        bytes = &bytes[REQUEST_BYTES..];
        if kind == DISCONNECT {
            assert_eq!(events.next(), Some(&RequestEvent::Disconnect));
            assert_eq!(events.next(), None);
            return;
        }
        let length = if kind == WRITE { span.length as usize } else { 0 };
        if length > MAX_SKIPPED_BYTES as usize {
            assert!(!is_sound && events.next().is_none());
            return;
        }
        let payload = &bytes[..length.min(bytes.len())];
        match events.next() {
            Some(RequestEvent::Request { cookie: found, command }) => {
                assert_eq!(*found, cookie);
                check(command);
                if let Command::Write { span: written, .. } = command {
                    assert_eq!(*written, span);
                    take_payload(&mut events, span, payload);
                }
            }
            Some(RequestEvent::Refused { cookie: found, .. }) => assert_eq!(*found, cookie),
            other => panic!("one event for each request: {other:?}"),
        }
        bytes = &bytes[payload.len()..];
    }
    assert_eq!(events.next(), None);
    let is_begun = bytes.len() < REQUEST_BYTES && 0x2560_9513_u32.to_be_bytes().starts_with(&bytes[..bytes.len().min(4)]);
    assert_eq!(is_sound, is_begun);
}

fn take_payload<'a>(events: &mut std::iter::Peekable<impl Iterator<Item = &'a RequestEvent>>, span: Span, payload: &[u8]) {
    let (mut at, mut ended) = (0, false);
    while let Some(RequestEvent::Payload { offset, data, is_last }) = events.peek() {
        assert_eq!(*offset, span.offset + at as u64);
        assert!(!data.is_empty() && data.len() <= PIECE_BYTES as usize && !ended);
        assert!(data[..] == payload[at..at + data.len()]);
        at += data.len();
        ended = *is_last;
        events.next();
    }
    assert_eq!(ended, at == span.length as usize);
    assert!(span.length as usize > payload.len() || ended, "all of the payload is there");
}

fn check(command: &Command) {
    let (span, most) = match command {
        Command::Flush => return,
        Command::Read { span, .. } | Command::Write { span, .. } => (span, MAX_PAYLOAD_BYTES),
        Command::Trim { span, .. }
        | Command::Cache { span }
        | Command::WriteZeros { span, .. }
        | Command::BlockStatus { span, .. } => (span, u32::MAX),
    };
    assert!(span.length > 0 && span.length <= most && span.end() <= SIZE, "{command:?}");
    assert!(span.offset.is_multiple_of(512) && span.length.is_multiple_of(512), "{command:?}");
}
