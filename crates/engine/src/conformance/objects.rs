//! Objects one at a time: sizes, ranges, keys, attributes.

use bytes::Bytes;
use smallvec::smallvec;
use types::BucketId;
use types::limits::{BLOCK_BYTES, CHUNK_BYTES, MAX_KEY_BYTES, MAX_SMALL_BYTES};

use super::Engine;
use super::random::content;
use super::support::{
    attributes, get, key, key_in, list, must_be, must_be_absent, names, put, put_as, read_range, rich_attributes, stage, tag,
    without_notes,
};
use crate::condition::Condition;
use crate::error::EngineError;
use crate::object::Content;

pub(super) async fn put_get_head_delete(engine: Engine) {
    let name = key("one");
    must_be_absent(&engine, &name).await;

    let committed = put(&engine, "one", 1, 4096).await;
    assert_eq!(committed.etag, tag(1));
    assert_eq!(committed.modified_ms, attributes(1).modified_ms);
    must_be(&engine, &name, 1, 4096).await;
    let info = engine.info(&name).await.expect("it is there");
    assert_eq!(info.order, committed.order);

    engine.delete(&name, Condition::None).await.expect("delete");
    must_be_absent(&engine, &name).await;

    engine.delete(&name, Condition::None).await.expect("deleting nothing is no error");

    put(&engine, "one", 2, 10).await;
    must_be(&engine, &name, 2, 10).await;
}

/// Every size at which some representation changes, and its neighbours.
const SIZES: &[usize] = &[
    0,
    1,
    63,
    64,
    65,
    1000,
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    3 * BLOCK_BYTES - 1,
    64 * 1024,
    MAX_SMALL_BYTES - BLOCK_BYTES,
    MAX_SMALL_BYTES - 1,
    MAX_SMALL_BYTES,
    MAX_SMALL_BYTES + 1,
    CHUNK_BYTES - 1,
    CHUNK_BYTES,
    CHUNK_BYTES + 1,
    2 * CHUNK_BYTES,
    5 * CHUNK_BYTES - BLOCK_BYTES - 1,
    5 * CHUNK_BYTES,
];

pub(super) async fn sizes_around_every_boundary(engine: Engine) {
    for (number, length) in SIZES.iter().enumerate() {
        put(&engine, &format!("size/{length}"), number as u64, *length).await;
    }
    for (number, length) in SIZES.iter().enumerate() {
        must_be(&engine, &key(&format!("size/{length}")), number as u64, *length).await;
    }
    let page = list(&engine, "size/", "", "", SIZES.len()).await;
    assert_eq!(page.items.len(), SIZES.len());
}

pub(super) async fn payload_in_pieces(engine: Engine) {
    let bytes = Bytes::from(content(5, 10_000));
    let pieces = smallvec![bytes.slice(..1), bytes.slice(1..1), bytes.slice(1..4096), bytes.slice(4096..)];
    engine.put(&key("pieces"), attributes(5), pieces, Condition::None).await.expect("put");
    must_be(&engine, &key("pieces"), 5, 10_000).await;

    engine.put(&key("none"), attributes(6), smallvec![], Condition::None).await.expect("put of no pieces");
    must_be(&engine, &key("none"), 6, 0).await;
}

pub(super) async fn overwrites_in_both_directions_of_size(engine: Engine) {
    let name = key("changing");
    for (number, length) in [100, CHUNK_BYTES + 1, 0, MAX_SMALL_BYTES, 3 * CHUNK_BYTES, 4096, 100].into_iter().enumerate() {
        put(&engine, "changing", number as u64, length).await;
        must_be(&engine, &name, number as u64, length).await;
    }
}

pub(super) async fn too_much_for_a_small_object(engine: Engine) {
    let bytes = Bytes::from(content(1, MAX_SMALL_BYTES + 1));
    let outcome = engine.put(&key("big"), attributes(1), smallvec![bytes], Condition::None).await;
    assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{outcome:?}");
    must_be_absent(&engine, &key("big")).await;
}

pub(super) async fn ranges_of_a_large_object(engine: Engine) {
    let length = 3 * CHUNK_BYTES + 777;
    put(&engine, "ranges", 9, length).await;
    let whole = content(9, length);
    let Content::Chunked(reader) = engine.open(&key("ranges")).await.expect("open").content else {
        panic!("an object of several chunks is read by ranges");
    };
    let chunk = CHUNK_BYTES;
    let ranges = [
        (0, 1),
        (0, length),
        (1, 2),
        (4095, 4097),
        (chunk - 1, chunk + 1),
        (chunk, 2 * chunk),
        (chunk - 10, 2 * chunk + 10),
        (2 * chunk + 5000, 2 * chunk + 5001),
        (3 * chunk, length),
        (length - 1, length),
    ];
    for (start, end) in ranges {
        let bytes = read_range(reader.as_ref(), start as u64, end as u64).await.expect("read");
        assert!(bytes[..] == whole[start..end], "bytes {start}..{end}");
    }
    assert!(reader.parts().is_none(), "an object of one piece has no parts");
}

pub(super) async fn a_reader_outlives_its_object(engine: Engine) {
    let length = 2 * CHUNK_BYTES + 5;
    put(&engine, "old", 1, length).await;
    let opened = engine.open(&key("old")).await.expect("open");
    put(&engine, "old", 2, 10).await;
    engine.delete(&key("old"), Condition::None).await.expect("delete");
    let Content::Chunked(reader) = opened.content else {
        panic!("an object of several chunks is read by ranges");
    };
    let bytes = read_range(reader.as_ref(), 0, length as u64).await.expect("the opened version stays readable");
    assert!(bytes[..] == content(1, length)[..]);
    must_be_absent(&engine, &key("old")).await;
}

pub(super) async fn staged_chunks_without_commit_are_no_object(engine: Engine) {
    put(&engine, "kept", 1, 100).await;
    for name in ["kept", "new"] {
        let staged = stage(&engine, &key(name), None, content(2, 2 * CHUNK_BYTES).into()).await.expect("stage");
        assert_eq!(staged.length, 2 * CHUNK_BYTES as u64);
        drop(staged);
    }
    must_be(&engine, &key("kept"), 1, 100).await;
    must_be_absent(&engine, &key("new")).await;
    assert_eq!(names(&list(&engine, "", "", "", 10).await), ["kept"]);
}

pub(super) async fn odd_keys(engine: Engine) {
    let longest = "k".repeat(MAX_KEY_BYTES);
    let longest_wide = "\u{10348}".repeat(MAX_KEY_BYTES / 4);
    let keys = [
        "a",
        "a/",
        "a/b",
        "a//b",
        "/",
        "//",
        "/a",
        "a b",
        ".",
        "..",
        "../x",
        "%2F",
        "ä",
        "a\u{308}",
        "日本",
        "\u{0}",
        "\u{1}x",
        "\n",
        "\u{feff}",
        "x\u{10ffff}",
        "A",
        &longest,
        &longest_wide,
    ];
    for (number, name) in keys.iter().enumerate() {
        put(&engine, name, number as u64, 50 + number).await;
    }
    for (number, name) in keys.iter().enumerate() {
        must_be(&engine, &key(name), number as u64, 50 + number).await;
    }
    engine.delete(&key("a/"), Condition::None).await.expect("delete");
    must_be_absent(&engine, &key("a/")).await;
    must_be(&engine, &key("a"), 0, 50).await;
    must_be(&engine, &key("a/b"), 2, 52).await;

    let page = list(&engine, "", "", "", 100).await;
    let mut expected: Vec<&str> = keys.iter().copied().filter(|name| *name != "a/").collect();
    expected.sort_unstable();
    assert_eq!(names(&page), expected);
}

pub(super) async fn buckets_are_apart(engine: Engine) {
    let (left, right) = (key_in(BucketId(1), "same"), key_in(BucketId(2), "same"));
    put_as(&engine, &left, 1, 10, Condition::None).await.expect("put");
    must_be_absent(&engine, &right).await;
    put_as(&engine, &right, 2, 20, Condition::Absent).await.expect("another bucket's key is absent");
    engine.delete(&left, Condition::None).await.expect("delete");
    must_be_absent(&engine, &left).await;
    must_be(&engine, &right, 2, 20).await;
    assert!(engine.is_empty(BucketId(1)).await.expect("emptiness"));
    assert!(!engine.is_empty(BucketId(2)).await.expect("emptiness"));
}

pub(super) async fn attributes_come_back(engine: Engine) {
    let rich = rich_attributes();
    engine.put(&key("small"), rich.clone(), smallvec![Bytes::from_static(b"x")], Condition::None).await.expect("put");
    let staged = stage(&engine, &key("large"), None, content(1, CHUNK_BYTES + 1).into()).await.expect("stage");
    engine.commit(&key("large"), staged, rich.clone(), Condition::None).await.expect("commit");
    for name in ["small", "large"] {
        let info = engine.info(&key(name)).await.expect("info");
        assert_eq!(without_notes(info.attributes), rich, "{name}");
        let found = engine.open(&key(name)).await.expect("open");
        assert_eq!(without_notes(found.info.attributes), rich, "{name}");
    }
}

pub(super) async fn orders_grow(engine: Engine) {
    let mut last = put(&engine, "counted", 0, 10).await.order;
    for number in 1..20 {
        let length = if number % 5 == 0 { CHUNK_BYTES + 1 } else { 10 };
        let order = put(&engine, "counted", number, length).await.order;
        assert!(order > last, "write {number} has order {order:?}, the one before {last:?}");
        last = order;
        assert_eq!(get(&engine, &key("counted")).await.expect("get").etag, tag(number));
    }
}
