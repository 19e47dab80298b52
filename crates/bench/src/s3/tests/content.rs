//! Bodies: the runs join up, and a wrong byte anywhere is found.

use std::collections::HashSet;

use super::super::content::{Content, Gather, Mismatch, POOL_BYTES, STAMP_BYTES, name_hash};

fn materialise(content: &Content) -> Vec<u8> {
    let mut body = Vec::new();
    while (body.len() as u64) < content.size() {
        body.extend_from_slice(content.run(body.len() as u64));
    }
    body
}

#[test]
fn a_body_has_its_size_and_passes_its_own_check() {
    for size in [0, 1, 15, 16, 17, 4096, POOL_BYTES as u64 + 5000, 3 * POOL_BYTES as u64] {
        let content = Content::new(name_hash(b"key"), size);
        let body = materialise(&content);
        assert_eq!(body.len() as u64, size);
        content.check(0, &body).unwrap();
        // In pieces, as reads bring them.
        let mut offset = 0;
        for piece in body.chunks(65_521) {
            content.check(offset, piece).unwrap();
            offset += piece.len() as u64;
        }
    }
}

#[test]
fn a_wrong_byte_is_found_where_it_is() {
    let content = Content::new(name_hash(b"key"), 10_000);
    for offset in [0, STAMP_BYTES - 1, STAMP_BYTES, 4096, 9_999] {
        let mut body = materialise(&content);
        let expected = body[offset];
        body[offset] ^= 1;
        let mismatch = Mismatch { offset: offset as u64, expected, found: expected ^ 1 };
        assert_eq!(content.check(0, &body), Err(mismatch));
    }
    let mut long = materialise(&content);
    long.push(7);
    assert_eq!(content.check(0, &long), Err(Mismatch { offset: 10_000, expected: 0, found: 7 }));
}

#[test]
fn another_object_or_another_place_is_noticed() {
    let (one, two) = (Content::new(name_hash(b"one"), 8192), Content::new(name_hash(b"two"), 8192));
    assert!(one.check(0, &materialise(&two)).is_err());
    let body = materialise(&one);
    assert!(one.check(0, &body[4096..]).is_err());
    assert!(one.check(4096, &body[..4096]).is_err());
    let longer = Content::new(name_hash(b"one"), 8193);
    assert!(one.check(0, &materialise(&longer)[..8192]).is_err(), "the stamp holds the size");
}

#[test]
fn blocks_of_one_large_body_differ() {
    let content = Content::new(name_hash(b"large"), 16 << 20);
    let body = materialise(&content);
    let blocks: HashSet<&[u8]> = body.chunks(4096).collect();
    assert_eq!(blocks.len(), (16 << 20) / 4096);
}

#[test]
fn gathering_resumes_at_any_offset() {
    let content = Content::new(name_hash(b"key"), POOL_BYTES as u64 + 100_000);
    let body = materialise(&content);
    for offset in [0, 7, 16, 100, POOL_BYTES - 3, body.len() - 1, body.len()] {
        let mut gather = Gather::default();
        gather.push(b"head");
        content.gather(offset as u64, &mut gather);
        let mut joined = Vec::new();
        for slice in gather.slices() {
            assert!(!slice.is_empty(), "an empty slice would look like a finished write");
            joined.extend_from_slice(slice);
        }
        assert_eq!(&joined[..4], b"head");
        assert!(body[offset..].starts_with(&joined[4..]));
        assert!(offset == body.len() || joined.len() > 4);
    }
}

#[test]
fn names_hash_apart() {
    let names = (0..10_000).map(|index| format!("bench/o-{index:010}"));
    let hashes: HashSet<u64> = names.map(|name| name_hash(name.as_bytes())).collect();
    assert_eq!(hashes.len(), 10_000);
    assert_ne!(name_hash(b"a"), name_hash(b"a\0"));
}
