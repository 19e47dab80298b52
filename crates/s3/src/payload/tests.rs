//! The examples of the Amazon S3 API reference for chunked uploads, and what is not chunked content.

use bytes::Bytes;
use futures_util::StreamExt;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

use super::chunked::MIN_CHUNK_BYTES;
use super::{Announced, ChunkError, ChunkSigning, Chunked, Hashed, PayloadError, Trailers};
use crate::sigv4::SigningKey;

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn signing(seed: &str) -> ChunkSigning {
    ChunkSigning {
        key: SigningKey::derive(SECRET, "20130524", "us-east-1"),
        time: String::from("20130524T000000Z"),
        day: String::from("20130524"),
        region: String::from("us-east-1"),
        previous: seed.as_bytes().try_into().expect("64 digits"),
    }
}

/// 65 KiB of `a`, in chunks of 64 KiB and 1 KiB.
fn example(signatures: [&str; 3], trailers: &str) -> Vec<u8> {
    let mut body = format!("10000;chunk-signature={}\r\n", signatures[0]).into_bytes();
    body.extend(vec![b'a'; 65_536]);
    body.extend(format!("\r\n400;chunk-signature={}\r\n", signatures[1]).into_bytes());
    body.extend(vec![b'a'; 1_024]);
    body.extend(format!("\r\n0;chunk-signature={}\r\n{trailers}\r\n", signatures[2]).into_bytes());
    body
}

/// Decodes a body that arrives in pieces of this many bytes.
fn decode(
    body: &[u8],
    piece_bytes: usize,
    signing: Option<ChunkSigning>,
    declared: u64,
    announced: Announced,
) -> Result<(Vec<u8>, Trailers), PayloadError> {
    let pieces: Vec<_> = body.chunks(piece_bytes).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let (mut chunked, trailers) = Chunked::new(futures_util::stream::iter(pieces), signing, declared, announced);
    let mut content = Vec::new();
    futures_util::FutureExt::now_or_never(async {
        while let Some(piece) = chunked.next().await {
            content.extend_from_slice(&piece?);
        }
        Ok::<(), PayloadError>(())
    })
    .expect("nothing to wait for")?;
    Ok((content, trailers))
}

fn announced(name: &'static str) -> Announced {
    Announced::Header(Some(http::HeaderName::from_static(name)))
}

fn chunk_error(result: Result<(Vec<u8>, Trailers), PayloadError>) -> ChunkError {
    match result {
        Err(PayloadError::Chunk(error)) => error,
        Err(error) => panic!("another error: {error}"),
        Ok((content, _)) => panic!("decoded to {} bytes", content.len()),
    }
}

const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const SIGNATURES: [&str; 3] = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
];

#[test]
fn signed_chunks_example() {
    let body = example(SIGNATURES, "");
    for piece_bytes in [1, 7, 100, 65_536, 1 << 20] {
        let (content, _) =
            decode(&body, piece_bytes, Some(signing(SEED)), 66_560, Announced::Never).expect("the example is right");
        assert_eq!(content, vec![b'a'; 66_560], "in pieces of {piece_bytes}");
    }
}

const TRAILER_SEED: &str = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
const TRAILER_SIGNATURES: [&str; 3] = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
];
const SIGNED_TRAILERS: &str = "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n";

#[test]
fn signed_chunks_with_trailers_example() {
    let body = example(TRAILER_SIGNATURES, SIGNED_TRAILERS);
    let (content, trailers) = decode(&body, 1000, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c"))
        .expect("the example is right");
    assert_eq!(content.len(), 66_560);
    assert_eq!(trailers.get("x-amz-checksum-crc32c").expect("sent"), "sOO8/Q==");
}

#[test]
fn a_changed_byte_is_found() {
    let good = example(TRAILER_SIGNATURES, SIGNED_TRAILERS);
    let in_chunk = 200;
    let in_trailer = good.windows(4).position(|window| window == b"sOO8").expect("there");
    for at in [in_chunk, in_trailer] {
        let mut body = good.clone();
        body[at] ^= 1;
        let error = chunk_error(decode(&body, 4096, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c")));
        assert_eq!(error, ChunkError::Signature, "byte {at}");
    }
    let another_seed = chunk_error(decode(&good, 4096, Some(signing(SEED)), 66_560, announced("x-amz-checksum-crc32c")));
    assert_eq!(another_seed, ChunkError::Signature);
    let no_trailer = example(TRAILER_SIGNATURES, "");
    let error = chunk_error(decode(&no_trailer, 4096, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c")));
    assert_eq!(error, ChunkError::Trailer("the announced one is missing"), "and so nothing of it is signed");
    let unsigned_trailer = example(TRAILER_SIGNATURES, "x-amz-checksum-crc32c:sOO8/Q==\r\n");
    let error =
        chunk_error(decode(&unsigned_trailer, 4096, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c")));
    assert_eq!(error, ChunkError::Signature, "without the trailer's signature");
}

#[test]
fn unsigned_chunks_with_trailer() {
    let body = b"b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
    for piece_bytes in 1..body.len() {
        let (content, trailers) = decode(body, piece_bytes, None, 11, announced("x-amz-checksum-crc32")).expect("well-formed");
        assert_eq!(content, b"hello world");
        assert_eq!(trailers.get("x-amz-checksum-crc32").expect("sent"), "DUoRhQ==");
    }
    let (content, _) = decode(b"0\r\n\r\n", 3, None, 0, Announced::Header(None)).expect("nothing at all");
    assert_eq!(content, b"");
}

#[test]
fn broken_framing() {
    let framing = |body: &[u8]| match chunk_error(decode(body, 1 << 20, None, 5, Announced::Never)) {
        ChunkError::Framing(_) => {}
        other => panic!("{other} for {:?}", String::from_utf8_lossy(body)),
    };
    framing(b"x\r\nhello\r\n0\r\n\r\n");
    framing(b"-5\r\nhello\r\n0\r\n\r\n");
    framing(b"\r\nhello\r\n0\r\n\r\n");
    framing(b"5\nhello\r\n0\r\n\r\n");
    framing(b"5\r\nhello!\r\n0\r\n\r\n");
    framing(b"5\r\nhello\r\n0\r\n\r\nmore");
    framing(b"5\r\nhello\r\n0\n\r\n");
    framing(b"5\r\nhello\r\n0\r\n\n");
    framing(&[b'1'; 5000]);
}

#[test]
fn wrong_trailers() {
    let trailing = |body: &str, announced| chunk_error(decode(body.as_bytes(), 1 << 20, None, 0, announced));
    let a = || announced("a");
    assert_eq!(trailing("0\r\nno colon\r\n\r\n", a()), ChunkError::Trailer("one is malformed"));
    assert_eq!(trailing("0\r\n\r\n", a()), ChunkError::Trailer("the announced one is missing"));
    assert_eq!(trailing("0\r\na:1\r\na:2\r\n\r\n", a()), ChunkError::Trailer("one is repeated, or there are too many"));
    for (body, announced) in [
        ("0\r\nb:1\r\n\r\n", a()),
        ("0\r\na:1\r\nb:1\r\n\r\n", a()),
        ("0\r\na:1\r\n\r\n", Announced::Header(None)),
        ("0\r\na:1\r\n\r\n", Announced::Never),
        ("0\r\nx-amz-trailer-signature:1\r\n\r\n", Announced::Never),
    ] {
        assert_eq!(trailing(body, announced), ChunkError::Trailer("one was not announced"), "{body}");
    }
}

/// As clients of MinIO send them.
#[test]
fn trailing_headers_that_end_with_a_line_feed() {
    let unsigned = [
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n",
        "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n",
    ];
    for body in unsigned {
        for piece_bytes in 1..body.len() {
            let decoded = decode(body.as_bytes(), piece_bytes, None, 5, announced("x-amz-checksum-crc32"));
            let (content, trailers) = decoded.expect("well-formed");
            assert_eq!(content, b"hello");
            assert_eq!(trailers.get("x-amz-checksum-crc32").expect("sent"), "NhCmhg==", "{body:?}");
        }
    }
    let more = chunk_error(decode(b"0\r\na:1\n\r\n\r\n\r\n", 100, None, 0, announced("a")));
    assert_eq!(more, ChunkError::Framing("bytes follow the last chunk"));
    let signed = SIGNED_TRAILERS.replacen("\r\n", "\n\r\n", 1);
    let body = example(TRAILER_SIGNATURES, &signed);
    let decoded = decode(&body, 1000, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c"));
    assert_eq!(decoded.expect("the signature is behind the empty line").0.len(), 66_560);
    let cut = example(TRAILER_SIGNATURES, "x-amz-checksum-crc32c:sOO8/Q==\n\r\n");
    let error = chunk_error(decode(&cut, 1000, Some(signing(TRAILER_SEED)), 66_560, announced("x-amz-checksum-crc32c")));
    assert_eq!(error, ChunkError::Signature, "it is missing");
}

#[test]
fn wrong_lengths() {
    let short = chunk_error(decode(b"5\r\nhello\r\n0\r\n\r\n", 100, None, 6, Announced::Never));
    assert_eq!(short, ChunkError::Length { declared: 6, found: 5 });
    let long = chunk_error(decode(b"5\r\nhello\r\n0\r\n\r\n", 100, None, 4, Announced::Never));
    assert_eq!(long, ChunkError::Length { declared: 4, found: 5 });
    let huge = chunk_error(decode(b"ffffffffffffffff\r\nhello", 100, None, 5, Announced::Never));
    assert_eq!(huge, ChunkError::Length { declared: 5, found: u64::MAX });
    for end in [0, 1, 3, 6, 8, 10, 11] {
        let cut = chunk_error(decode(&b"5\r\nhello\r\n0\r\n\r\n"[..end], 100, None, 5, Announced::Never));
        assert_eq!(cut, ChunkError::Incomplete, "cut at {end}");
    }
}

#[test]
fn hashed_content() {
    let run = |expected: &str| {
        let pieces =
            futures_util::stream::iter([Ok(Bytes::from_static(b"Welcome to ")), Ok(Bytes::from_static(b"Amazon S3."))]);
        futures_util::FutureExt::now_or_never(Hashed::new(pieces, expected).collect::<Vec<_>>()).expect("nothing to wait for")
    };
    let good = run("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    assert!(good.iter().all(Result::is_ok), "the hash of the example is right");
    let bad = run("44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b073");
    let Some(Err(PayloadError::Sha256Mismatch { given, computed })) = bad.last() else { panic!("the last digit differs") };
    assert_eq!((&given[63..], &computed[63..]), ("3", "2"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever arrives in whatever pieces, the decoder ends, and never hands out more than was declared.
    #[test]
    fn never_more_than_declared(body in prop::collection::vec(any::<u8>(), 0..200), piece_bytes in 1usize..50, declared in 0u64..100) {
        if let Ok((content, _)) = decode(&body, piece_bytes, None, declared, announced("a")) {
            assert_eq!(content.len() as u64, declared);
        }
    }

    #[test]
    fn any_chunks_come_back(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..10), piece_bytes in 1usize..400) {
        let mut body = Vec::new();
        let (last, all_but_last) = chunks.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
        let large = all_but_last.iter().map(|chunk| chunk.iter().copied().cycle().take(MIN_CHUNK_BYTES as usize + chunk.len()).collect());
        let chunks: Vec<Vec<u8>> = large.chain(last.cloned()).collect();
        for chunk in &chunks {
            body.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        body.extend(b"0\r\n\r\n");
        let content = chunks.concat();
        let (decoded, _) = decode(&body, piece_bytes, None, content.len() as u64, Announced::Never).expect("well-formed");
        assert_eq!(decoded, content);
    }
}
