//! Lists: order, prefixes, pages, and that they agree with reads.

use bytes::Bytes;
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumType, StorageClass};
use types::BucketId;
use types::limits::CHUNK_BYTES;

use super::Engine;
use super::random::{Draw, seeds};
use super::support::{
    BUCKET, attributes, item_name, key, key_in, list, must_be, must_be_absent, names, open_upload, put, put_as, tag,
};
use crate::condition::Condition;
use crate::list::{ListItem, ListPage};
use crate::object::Payload;

pub(super) async fn empty_bucket(engine: Engine) {
    put_as(&engine, &key_in(BucketId(1), "elsewhere"), 1, 1, Condition::None).await.expect("put");
    let page = list(&engine, "", "", "", 1000).await;
    assert!(page.items.is_empty() && !page.truncated, "{page:?}");
    let page = list(&engine, "x", "y", "/", 1).await;
    assert!(page.items.is_empty() && !page.truncated, "{page:?}");
}

async fn put_all(engine: &Engine, names: &[&str]) {
    for (number, name) in names.iter().enumerate() {
        put(engine, name, number as u64, 10 + number).await;
    }
}

pub(super) async fn names_in_byte_order(engine: Engine) {
    put_all(&engine, &["b", "a", "ab", "a/", "a-", "A", "aa", "\u{e9}", "z", "~"]).await;
    let page = list(&engine, "", "", "", 1000).await;
    assert_eq!(names(&page), ["A", "a", "a-", "a/", "aa", "ab", "b", "z", "~", "\u{e9}"]);
    assert!(!page.truncated);
    let page = list(&engine, "a", "a-", "", 2).await;
    assert_eq!(names(&page), ["a/", "aa"]);
    assert!(page.truncated, "ab follows");
    let page = list(&engine, "a", "a/", "", 2).await;
    assert_eq!(names(&page), ["aa", "ab"]);
    assert!(!page.truncated, "b has another prefix");
}

const TREE: &[&str] = &["a", "a/", "a/b", "a/b/c", "a/b/d", "a/e", "b/x", "b/y", "c", "d/1", "d/2/3"];

pub(super) async fn prefixes_and_delimiters(engine: Engine) {
    put_all(&engine, TREE).await;
    let shown = async |prefix: &str| names(&list(&engine, prefix, "", "/", 100).await);
    assert_eq!(shown("").await, ["a", "a/*", "b/*", "c", "d/*"]);
    assert_eq!(shown("a/").await, ["a/", "a/b", "a/b/*", "a/e"]);
    assert_eq!(shown("a").await, ["a", "a/*"]);
    assert_eq!(shown("a/b").await, ["a/b", "a/b/*"]);
    assert_eq!(shown("d/").await, ["d/1", "d/2/*"]);
    assert_eq!(shown("nothing").await, [""; 0]);
    assert_eq!(names(&list(&engine, "a/b/", "", "", 100).await), ["a/b/c", "a/b/d"]);
}

pub(super) async fn start_after_skips_rolled_up_prefixes(engine: Engine) {
    put_all(&engine, TREE).await;
    let shown = async |start_after: &str| names(&list(&engine, "", start_after, "/", 100).await);
    assert_eq!(shown("a").await, ["a/*", "b/*", "c", "d/*"]);
    assert_eq!(shown("a/").await, ["b/*", "c", "d/*"]);
    assert_eq!(shown("a/b").await, ["b/*", "c", "d/*"], "the prefix a/ is not greater than a/b");
    assert_eq!(shown("b/").await, ["c", "d/*"]);
    assert_eq!(shown("d/").await, [""; 0]);
    assert_eq!(names(&list(&engine, "b/", "a", "/", 100).await), ["b/x", "b/y"], "a start before the prefix changes nothing");
    assert_eq!(names(&list(&engine, "b/", "c", "/", 100).await), [""; 0], "a start behind the prefix leaves nothing");
}

/// Joins pages of `max_items`, each continued after the last item of the one before.
async fn joined_pages(engine: &Engine, prefix: &str, delimiter: &str, max_items: usize) -> Vec<ListItem> {
    let mut items: Vec<ListItem> = Vec::new();
    loop {
        let start_after = items.last().map_or(Bytes::new(), |last| item_name(last).clone());
        let start_after = std::str::from_utf8(&start_after).expect("names are UTF-8");
        let page = list(engine, prefix, start_after, delimiter, max_items).await;
        assert!(page.items.len() <= max_items, "{} items in a page of {max_items}", page.items.len());
        assert!(!page.truncated || page.items.len() == max_items, "a page that is not the last is full");
        items.extend(page.items);
        if !page.truncated {
            return items;
        }
    }
}

pub(super) async fn pages_join_to_the_whole(engine: Engine) {
    put_all(&engine, TREE).await;
    for prefix in ["", "a", "a/", "b/", "d/2/"] {
        for delimiter in ["", "/", "b"] {
            let whole = list(&engine, prefix, "", delimiter, 1000).await.items;
            for max_items in 1..=TREE.len() + 1 {
                let joined = joined_pages(&engine, prefix, delimiter, max_items).await;
                assert_eq!(joined, whole, "prefix {prefix:?}, delimiter {delimiter:?}, pages of {max_items}");
            }
        }
    }
}

pub(super) async fn agrees_with_reads(engine: Engine) {
    put(&engine, "small", 1, 123).await;
    put(&engine, "large", 2, CHUNK_BYTES + 321).await;
    put(&engine, "empty", 3, 0).await;
    put(&engine, "small", 4, 456).await;
    let checksum = Checksum::new(ChecksumAlgorithm::Sha1, ChecksumType::Composite { parts: 2 }, &[7; 20]);
    let classed = Attributes { storage_class: StorageClass::Glacier, checksum, ..attributes(5) };
    engine.put(&key("classed"), classed, Payload::new(), Condition::None).await.expect("put");
    let page = list(&engine, "", "", "", 10).await;
    assert_eq!(names(&page), ["classed", "empty", "large", "small"]);
    for item in &page.items {
        let ListItem::Object(listed) = item else { panic!("{item:?} without a delimiter") };
        let info = engine.info(&key(std::str::from_utf8(&listed.key).expect("UTF-8"))).await.expect("listed means readable");
        let Attributes { etag, modified_ms, storage_class, .. } = info.attributes;
        let said = (listed.length, listed.etag, listed.modified_ms, listed.storage_class, listed.checksum);
        assert_eq!(said, (info.length, etag, modified_ms, storage_class, info.attributes.checksum_scheme()));
    }
    let ListItem::Object(small) = &page.items[3] else { panic!("an object") };
    assert_eq!((small.length, small.etag, small.modified_ms), (456, tag(4), attributes(4).modified_ms));
}

pub(super) async fn list_after_write_and_delete(engine: Engine) {
    for round in 0..30 {
        let name = format!("round/{round:02}");
        put(&engine, &name, round, 20).await;
        assert_eq!(list(&engine, "round/", "", "", 100).await.items.len(), round as usize + 1);
        assert_eq!(names(&list(&engine, &name, "", "", 10).await), [name.as_str()]);
    }
    for round in 0..30 {
        let name = format!("round/{round:02}");
        engine.delete(&key(&name), Condition::None).await.expect("delete");
        assert_eq!(list(&engine, "round/", "", "", 100).await.items.len(), 29 - round as usize);
    }
    assert_eq!(names(&list(&engine, "", "", "/", 10).await), [""; 0], "no ghost of the prefix is left");
}

pub(super) async fn long_delimiters_and_odd_prefixes(engine: Engine) {
    put_all(&engine, &["x--y", "x--z", "x-y", "x---w", "--", "\u{e9}--1", "\u{e9}/2"]).await;
    assert_eq!(names(&list(&engine, "", "", "--", 100).await), ["--*", "x--*", "x-y", "\u{e9}--*", "\u{e9}/2"]);
    assert_eq!(names(&list(&engine, "x-", "", "--", 100).await), ["x---*", "x--y", "x--z", "x-y"]);
    assert_eq!(names(&list(&engine, "x--", "", "--", 100).await), ["x---w", "x--y", "x--z"]);
}

pub(super) async fn emptiness(engine: Engine) {
    let is_empty = async || engine.is_empty(BUCKET).await.expect("emptiness");
    assert!(is_empty().await);
    put(&engine, "one", 1, 10).await;
    assert!(!is_empty().await);
    engine.delete(&key("one"), Condition::None).await.expect("delete");
    assert!(is_empty().await);
    let upload = open_upload(&engine, &key("two"), 2).await;
    assert!(!is_empty().await, "an open upload is something");
    engine.abort(&upload).await.expect("abort");
    assert!(is_empty().await);
}

/// Random trees of names: an item is there exactly if a plain filter of the written names says so.
pub(super) async fn random_names(engine: Engine) {
    const ALPHABET: &[&str] = &["a", "b", "/", "//", "\u{e9}", "-", "a/", "0"];
    for seed in seeds(2) {
        let mut draw = Draw::new(seed);
        let mut written: Vec<String> = Vec::new();
        for number in 0..150 {
            let name: String = (0..draw.below(6) + 1).map(|_| draw.pick(ALPHABET)).collect();
            if draw.below(4) == 0 {
                engine.delete(&key(&name), Condition::None).await.expect("delete");
                must_be_absent(&engine, &key(&name)).await;
                written.retain(|other| *other != name);
            } else {
                put(&engine, &name, number, 5).await;
                must_be(&engine, &key(&name), number, 5).await;
                written.retain(|other| *other != name);
                written.push(name);
            }
        }
        written.sort_unstable();
        for _ in 0..100 {
            let prefix: String = (0..draw.below(3)).map(|_| draw.pick(ALPHABET)).collect();
            let delimiter = draw.pick(&["", "/", "a", "//", "-"]);
            let start_after: String = (0..draw.below(4)).map(|_| draw.pick(ALPHABET)).collect();
            let max_items = draw.below(40) + 1;
            let page = list(&engine, &prefix, &start_after, delimiter, max_items).await;
            let question = format!("seed {seed}: {prefix:?} after {start_after:?} by {delimiter:?}, {max_items} items");
            check_page(&page, &written, (&prefix, &start_after, delimiter, max_items), &question);
        }
        for name in &written {
            engine.delete(&key(name), Condition::None).await.expect("delete");
        }
    }
}

fn check_page(page: &ListPage, written: &[String], query: (&str, &str, &str, usize), question: &str) {
    let (prefix, start_after, delimiter, max_items) = query;
    let mut expected: Vec<String> = Vec::new();
    for name in written.iter().filter(|name| name.starts_with(prefix)) {
        let cut = (!delimiter.is_empty()).then(|| name[prefix.len()..].find(delimiter)).flatten();
        let (item, shown) = match cut {
            None => (name.as_str(), name.clone()),
            Some(at) => {
                let rolled_up = &name[..prefix.len() + at + delimiter.len()];
                (rolled_up, format!("{rolled_up}*"))
            }
        };
        if item > start_after && expected.last() != Some(&shown) {
            expected.push(shown);
        }
    }
    let truncated = expected.len() > max_items;
    expected.truncate(max_items);
    assert_eq!(names(page), expected, "{question}");
    assert_eq!(page.truncated, truncated, "{question}");
}
