//! Responses, whole and cut at every place.

use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

use super::super::response::{Event, Head, MAX_HEAD_BYTES, MAX_LINE_BYTES, ResponseError, ResponseParser};

/// Feeds the pieces and returns the head, the body, and what was left over.
fn parse(pieces: &[&[u8]], to_head_request: bool) -> Result<(Head, Vec<u8>, usize, bool), ResponseError> {
    let mut parser = ResponseParser::new();
    parser.begin(to_head_request);
    let (mut head, mut body, mut left, mut ended) = (None, Vec::new(), 0, false);
    for piece in pieces {
        let mut input = *piece;
        loop {
            match parser.feed(&mut input)? {
                Event::Head(found) => head = Some(found),
                Event::Body(bytes) => body.extend_from_slice(bytes),
                Event::NeedMore => break,
                Event::End => {
                    left += input.len();
                    ended = true;
                    break;
                }
            }
        }
    }
    if !ended {
        parser.end_of_stream()?;
    }
    Ok((head.expect("a response has a head"), body, left, ended))
}

fn parse_whole(text: &str) -> Result<(Head, Vec<u8>, usize, bool), ResponseError> {
    parse(&[text.as_bytes()], false)
}

const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       4\r\nwiki\r\n6;name=value\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nTrailer: yes\r\n\r\n";

#[test]
fn length_chunks_and_end_of_stream() {
    let (head, body, left, ended) = parse_whole(LENGTH).unwrap();
    assert_eq!((head.status, head.content_length, head.close), (200, Some(5), false));
    assert_eq!((body.as_slice(), left, ended), (&b"hello"[..], 0, true));

    let (head, body, _, ended) = parse_whole(CHUNKED).unwrap();
    assert_eq!((head.content_length, head.close, ended), (None, false, true));
    assert_eq!(body, b"wikipedia in \r\n\r\nchunks.");

    let (head, body, _, ended) = parse_whole("HTTP/1.1 200 OK\r\n\r\nuntil the end").unwrap();
    assert_eq!((head.close, ended), (true, false));
    assert_eq!(body, b"until the end");
}

#[test]
fn bodiless_answers_end_with_their_head() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n";
    let (found, body, _, ended) = parse(&[head], true).unwrap();
    assert_eq!((found.content_length, body.len(), ended), (Some(4096), 0, true));
    for status in ["204 No Content", "304 Not Modified"] {
        let (_, body, _, ended) = parse_whole(&format!("HTTP/1.1 {status}\r\n\r\n")).unwrap();
        assert!(body.is_empty() && ended, "{status}");
    }
    let (_, body, _, ended) = parse_whole("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(body.is_empty() && ended);
}

#[test]
fn informational_answers_are_passed_over() {
    let text = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n{LENGTH}");
    let (head, body, ..) = parse_whole(&text).unwrap();
    assert_eq!((head.status, body.as_slice()), (200, &b"hello"[..]));
}

#[test]
fn connection_close_is_seen() {
    let close = "HTTP/1.1 503 Slow Down\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
    assert!(parse_whole(close).unwrap().0.close);
    assert!(parse_whole("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap().0.close);
    assert!(!parse_whole("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").unwrap().0.close);
}

#[test]
fn bytes_after_the_response_are_left() {
    assert_eq!(parse_whole(&format!("{LENGTH}HTTP")).unwrap().2, 4);
}

#[test]
fn malformed_answers_are_refused() {
    let cases = [
        ("SSH-2.0-OpenSSH\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 2x0 OK\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 2000 OK\r\n\r\n", ResponseError::StatusLine),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", ResponseError::Header),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ResponseError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ResponseError::ContentLength),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ResponseError::Chunk),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", ResponseError::Chunk),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", ResponseError::Chunk),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", ResponseError::Closed),
        ("HTTP/1.1 200 OK\r\nContent-Le", ResponseError::Closed),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", ResponseError::Closed),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_whole(text).unwrap_err(), expected, "{text:?}");
    }
}

#[test]
fn heads_and_lines_have_limits() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(MAX_HEAD_BYTES));
    assert_eq!(parse_whole(&long).unwrap_err(), ResponseError::TooLong);
    let line = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}", "0".repeat(MAX_LINE_BYTES + 1));
    assert_eq!(parse_whole(&line).unwrap_err(), ResponseError::TooLong);
}

#[test]
fn every_split_in_two_reads_the_same() {
    for text in [LENGTH, CHUNKED, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"] {
        let whole = parse_whole(text).unwrap();
        for cut in 0..=text.len() {
            let (front, back) = text.as_bytes().split_at(cut);
            assert_eq!(parse(&[front, back], false).unwrap(), whole, "cut at {cut} of {text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn chunked_bodies_survive_any_cuts(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in proptest::collection::vec(1usize..30, 1..40),
    ) {
        let mut message = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in &chunks {
            message.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            message.extend_from_slice(chunk);
            message.extend_from_slice(b"\r\n");
        }
        message.extend_from_slice(b"0\r\n\r\n");
        let mut pieces = Vec::new();
        let mut rest = message.as_slice();
        for cut in cuts {
            let (piece, tail) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = tail;
        }
        pieces.push(rest);
        let (_, body, left, ended) = parse(&pieces, false).unwrap();
        prop_assert_eq!(body, chunks.concat());
        prop_assert_eq!((left, ended), (0, true));
    }
}
