//! Uploads: parts, completion, abortion, retries and races.

use std::collections::BTreeSet;

use bytes::Bytes;
use format::attributes::Attributes;
use format::part_table::TablePart;
use smallvec::smallvec;
use tokio::task::JoinSet;
use types::UploadId;
use types::limits::{BLOCK_BYTES, CHUNK_BYTES, MAX_PARTS, MAX_SMALL_BYTES};

use super::Engine;
use super::random::content;
use super::support::{
    BUCKET, Seen, attributes, get, key, list, must_be, must_be_absent, named, names, open_upload, put, put_part, read_range,
    rich_attributes, tag, without_notes,
};
use crate::condition::{Condition, ETagMatch};
use crate::error::EngineError;
use crate::object::{Committed, Content};
use crate::upload::{CompletePart, PartContent, PartInfo, UploadQuery, UploadRef};

fn is_no_such_upload<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) -> bool {
    matches!(outcome, Err(EngineError::NoSuchUpload))
}

async fn complete(
    engine: &Engine,
    upload: &UploadRef,
    parts: &[&PartInfo],
    number: u64,
    condition: Condition,
) -> Result<Committed, EngineError> {
    let parts = parts.iter().map(|part| named(part)).collect();
    engine.complete(upload, parts, attributes(number), condition).await
}

/// The object must consist of these (number, length) pieces.
async fn must_be_joined(engine: &Engine, name: &str, number: u64, pieces: &[(u64, usize)]) {
    let bytes: Vec<u8> = pieces.iter().flat_map(|(number, length)| content(*number, *length)).collect();
    let expected = Seen { etag: tag(number), modified_ms: attributes(number).modified_ms, bytes: bytes.into() };
    let seen = get(engine, &key(name)).await.expect("a completed upload is an object");
    assert!(seen == expected, "{name:?} is {seen:?}, expected {expected:?}");
}

pub(super) async fn whole_life(engine: Engine) {
    put(&engine, "film", 1, 10).await;
    let name = key("film");
    let given = rich_attributes();
    let upload = engine.create_upload(&name, given.clone()).await.expect("create");
    let upload = UploadRef { key: name.clone(), upload };
    assert_eq!(without_notes(engine.upload(&upload).await.expect("the upload is open")), given);
    assert!(engine.parts(&upload, 0, 10).await.expect("parts").is_empty());

    let lengths = [5 * CHUNK_BYTES, CHUNK_BYTES + BLOCK_BYTES + 7, MAX_SMALL_BYTES];
    let mut parts = Vec::new();
    for (index, length) in lengths.into_iter().enumerate() {
        let number = index as u16 + 1;
        let part = put_part(&engine, &upload, number, 100 + index as u64, length).await.expect("put_part");
        assert_eq!((part.number, part.length, part.attributes.etag), (number, length as u64, tag(100 + index as u64)));
        parts.push(part);
    }
    must_be(&engine, &name, 1, 10).await;
    assert_eq!(names(&list(&engine, "", "", "", 10).await), ["film"]);

    let listed = engine.parts(&upload, 1, 10).await.expect("parts");
    let shown: Vec<_> = listed.iter().map(|part| (part.number, part.length, part.attributes.etag, part.order)).collect();
    let expected: Vec<_> = parts[1..].iter().map(|part| (part.number, part.length, part.attributes.etag, part.order)).collect();
    assert_eq!(shown, expected);
    assert_eq!(engine.parts(&upload, 0, 2).await.expect("parts").len(), 2);

    let whole: Vec<&PartInfo> = parts.iter().collect();
    let committed = complete(&engine, &upload, &whole, 2, Condition::None).await.expect("complete");
    assert_eq!((committed.etag, committed.modified_ms), (tag(2), attributes(2).modified_ms));
    let pieces: Vec<(u64, usize)> = lengths.iter().enumerate().map(|(index, length)| (100 + index as u64, *length)).collect();
    must_be_joined(&engine, "film", 2, &pieces).await;
    assert_eq!(engine.info(&name).await.expect("info").order, committed.order);
    let outcome = engine.upload(&upload).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");
    let outcome = put_part(&engine, &upload, 9, 1, 10).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");
    let outcome = engine.parts(&upload, 0, 10).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");

    engine.delete(&name, Condition::None).await.expect("delete");
    must_be_absent(&engine, &name).await;
    assert!(engine.is_empty(BUCKET).await.expect("emptiness"));
}

pub(super) async fn parts_replaced_and_out_of_order(engine: Engine) {
    let upload = open_upload(&engine, &key("mixed"), 1).await;
    let last = put_part(&engine, &upload, MAX_PARTS, 3, 11).await.expect("put_part");
    let first = put_part(&engine, &upload, 2, 1, 40).await.expect("put_part");
    let replaced = put_part(&engine, &upload, 5, 2, 50).await.expect("put_part");
    let replacing = put_part(&engine, &upload, 5, 4, CHUNK_BYTES + 1).await.expect("put_part");
    put_part(&engine, &upload, 7, 9, 70).await.expect("a part that the completion leaves out");
    assert_ne!(replaced.order, replacing.order, "a part uploaded again is another part");
    let listed = engine.parts(&upload, 0, 100).await.expect("parts");
    assert_eq!(listed.iter().map(|part| part.number).collect::<Vec<_>>(), [2, 5, 7, MAX_PARTS]);
    assert_eq!(listed[1].order, replacing.order);
    complete(&engine, &upload, &[&first, &replacing, &last], 8, Condition::None).await.expect("complete");
    must_be_joined(&engine, "mixed", 8, &[(1, 40), (4, CHUNK_BYTES + 1), (3, 11)]).await;
}

pub(super) async fn stale_or_unknown_parts(engine: Engine) {
    let upload = open_upload(&engine, &key("strict"), 1).await;
    let stale = put_part(&engine, &upload, 1, 1, 40).await.expect("put_part");
    let fresh = put_part(&engine, &upload, 1, 2, 40).await.expect("put_part");
    let unknown = CompletePart { number: 3, order: fresh.order };
    let cases = [(vec![named(&stale)], 1), (vec![named(&fresh), unknown], 3), (vec![unknown], 3)];
    for (parts, wrong) in cases {
        let outcome = engine.complete(&upload, parts.clone(), attributes(9), Condition::None).await;
        assert!(matches!(outcome, Err(EngineError::InvalidPart { number }) if number == wrong), "{parts:?}: {outcome:?}");
    }
    let second = put_part(&engine, &upload, 2, 3, 40).await.expect("the upload is still open");
    for parts in [vec![], vec![named(&second), named(&fresh)], vec![named(&fresh), named(&fresh)]] {
        let outcome = engine.complete(&upload, parts.clone(), attributes(9), Condition::None).await;
        assert!(matches!(outcome, Err(EngineError::Invalid { .. })), "{parts:?}: {outcome:?}");
    }
    must_be_absent(&engine, &key("strict")).await;
    complete(&engine, &upload, &[&fresh, &second], 9, Condition::None).await.expect("complete");
    must_be_joined(&engine, "strict", 9, &[(2, 40), (3, 40)]).await;
}

pub(super) async fn abort_ends_an_upload(engine: Engine) {
    put(&engine, "kept", 1, 10).await;
    let upload = open_upload(&engine, &key("kept"), 2).await;
    let part = put_part(&engine, &upload, 1, 3, 2 * CHUNK_BYTES).await.expect("put_part");
    engine.abort(&upload).await.expect("abort");
    let outcome = complete(&engine, &upload, &[&part], 4, Condition::None).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");
    let outcome = engine.abort(&upload).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");
    must_be(&engine, &key("kept"), 1, 10).await;

    let never = UploadRef { key: key("kept"), upload: UploadId([0xfe; 16]) };
    let outcome = engine.abort(&never).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");
    let outcome = engine.put_part(&never, 1, attributes(1), PartContent::Whole(smallvec![Bytes::from_static(b"x")])).await;
    assert!(is_no_such_upload(&outcome), "{outcome:?}");

    let upload = open_upload(&engine, &key("kept"), 2).await;
    let other_key = UploadRef { key: key("other"), upload: upload.upload };
    let outcome = engine.upload(&other_key).await;
    assert!(is_no_such_upload(&outcome), "an upload belongs to its key: {outcome:?}");
    engine.abort(&upload).await.expect("abort");
}

pub(super) async fn retried_complete_answers_the_first_outcome(engine: Engine) {
    let upload = open_upload(&engine, &key("again"), 1).await;
    let part = put_part(&engine, &upload, 1, 2, 30).await.expect("put_part");
    let first = complete(&engine, &upload, &[&part], 3, Condition::Absent).await.expect("complete");
    let second = complete(&engine, &upload, &[&part], 4, Condition::Absent).await.expect("a retry is answered");
    assert_eq!(first, second);
    let third =
        complete(&engine, &upload, &[], 5, Condition::None).await.expect("ended uploads answer before parts are judged");
    assert_eq!(first, third);
    must_be_joined(&engine, "again", 3, &[(2, 30)]).await;
}

pub(super) async fn retried_complete_never_republishes(engine: Engine) {
    let upload = open_upload(&engine, &key("newer"), 1).await;
    let part = put_part(&engine, &upload, 1, 2, 30).await.expect("put_part");
    let first = complete(&engine, &upload, &[&part], 3, Condition::None).await.expect("complete");
    put(&engine, "newer", 9, 12).await;
    let second = complete(&engine, &upload, &[&part], 3, Condition::None).await.expect("a retry is answered");
    assert_eq!(first, second);
    must_be(&engine, &key("newer"), 9, 12).await;
}

pub(super) async fn conditional_complete(engine: Engine) {
    put(&engine, "guarded", 1, 10).await;
    let upload = open_upload(&engine, &key("guarded"), 2).await;
    let part = put_part(&engine, &upload, 1, 3, 30).await.expect("put_part");
    let outcome = complete(&engine, &upload, &[&part], 4, Condition::Absent).await;
    assert!(matches!(outcome, Err(EngineError::PreconditionFailed)), "{outcome:?}");
    let other = Condition::Match(ETagMatch::OneOf(vec![tag(5)]));
    let outcome = complete(&engine, &upload, &[&part], 4, other).await;
    assert!(matches!(outcome, Err(EngineError::PreconditionFailed)), "{outcome:?}");
    must_be(&engine, &key("guarded"), 1, 10).await;
    let same = Condition::Match(ETagMatch::OneOf(vec![tag(1)]));
    complete(&engine, &upload, &[&part], 4, same).await.expect("the upload stayed open, and the tag matches");
    must_be_joined(&engine, "guarded", 4, &[(3, 30)]).await;

    let upload = open_upload(&engine, &key("missing"), 2).await;
    let part = put_part(&engine, &upload, 1, 3, 30).await.expect("put_part");
    let outcome = complete(&engine, &upload, &[&part], 4, Condition::Match(ETagMatch::Any)).await;
    assert!(matches!(outcome, Err(EngineError::NotFound)), "{outcome:?}");
}

pub(super) async fn parts_of_the_completed_object(engine: Engine) {
    let upload = open_upload(&engine, &key("parted"), 1).await;
    let lengths = [CHUNK_BYTES + 3, 100, 2 * CHUNK_BYTES, 1];
    let mut parts = Vec::new();
    for (index, length) in lengths.into_iter().enumerate() {
        // Numbers with gaps: the n-th part of the object is not the part numbered n.
        parts.push(put_part(&engine, &upload, 10 * (index as u16 + 1), index as u64, length).await.expect("put_part"));
    }
    let whole: Vec<&PartInfo> = parts.iter().collect();
    complete(&engine, &upload, &whole, 9, Condition::None).await.expect("complete");
    let Content::Chunked(reader) = engine.open(&key("parted")).await.expect("open").content else {
        panic!("an object of parts is read by ranges");
    };
    let table = reader.parts().expect("an object of parts has some");
    let mut start = 0;
    for (index, length) in lengths.into_iter().enumerate() {
        let TablePart { range, checksum } = table.get(index as u16 + 1).expect("the part is there");
        assert_eq!((range.clone(), checksum), (start..start + length as u64, parts[index].attributes.checksum));
        let bytes = read_range(reader.as_ref(), range.start, range.end).await.expect("read");
        assert!(bytes[..] == content(index as u64, length)[..], "part {}", index + 1);
        start = range.end;
    }
    assert_eq!((table.count(), table.get(5), table.get(0)), (4, None, None));
    let across = read_range(reader.as_ref(), CHUNK_BYTES as u64, CHUNK_BYTES as u64 + 200).await.expect("read");
    let pieces: Vec<u8> = (0..4).flat_map(|index| content(index, lengths[index as usize])).collect();
    assert!(across[..] == pieces[CHUNK_BYTES..CHUNK_BYTES + 200]);
}

pub(super) async fn one_part_only(engine: Engine) {
    for (name, length) in [("empty", 0), ("small", 77), ("large", CHUNK_BYTES + 1)] {
        let upload = open_upload(&engine, &key(name), 1).await;
        let part = put_part(&engine, &upload, 1, 5, length).await.expect("put_part");
        complete(&engine, &upload, &[&part], 6, Condition::None).await.expect("complete");
        must_be_joined(&engine, name, 6, &[(5, length)]).await;
    }
}

pub(super) async fn racing_completes_agree(engine: Engine) {
    for round in 0..10 {
        let name = format!("race/{round}");
        let upload = open_upload(&engine, &key(&name), 1).await;
        let part = put_part(&engine, &upload, 1, 2, 30).await.expect("put_part");
        let mut racers = JoinSet::new();
        for number in 0..4 {
            let (engine, upload, part) = (engine.clone(), upload.clone(), part.clone());
            racers.spawn(async move { complete(&engine, &upload, &[&part], 10 + number, Condition::Absent).await });
        }
        let mut orders = BTreeSet::new();
        while let Some(joined) = racers.join_next().await {
            // A racer may be told to try again, but never that the upload or the condition is wrong.
            match joined.expect("a racer ends") {
                Ok(committed) => {
                    orders.insert(committed.order);
                }
                outcome => assert!(matches!(outcome, Err(EngineError::Conflict { .. })), "{outcome:?}"),
            }
        }
        assert_eq!(orders.len(), 1, "round {round}: one outcome for all: {orders:?}");
        let info = engine.info(&key(&name)).await.expect("info");
        assert!(orders.contains(&info.order));
    }
}

pub(super) async fn complete_or_abort_not_both(engine: Engine) {
    for round in 0..10 {
        let name = format!("race/{round}");
        let upload = open_upload(&engine, &key(&name), 1).await;
        let part = put_part(&engine, &upload, 1, 2, 30).await.expect("put_part");
        let (other_engine, other_upload) = (engine.clone(), upload.clone());
        let aborting = tokio::spawn(async move { other_engine.abort(&other_upload).await });
        let completed = complete(&engine, &upload, &[&part], 3, Condition::None).await;
        let aborted = aborting.await.expect("the abort ends");
        assert!(completed.is_ok() != aborted.is_ok(), "round {round}: {completed:?}, {aborted:?}");
        if completed.is_ok() {
            must_be_joined(&engine, &name, 3, &[(2, 30)]).await;
        } else {
            must_be_absent(&engine, &key(&name)).await;
        }
    }
}

/// Ids that say nothing of the time would be in another order nearly always.
pub(super) async fn listed_in_the_order_of_creation(engine: Engine) {
    let mut created = Vec::new();
    for modified_ms in 1..=20 {
        let attributes = Attributes { modified_ms, ..attributes(0) };
        created.push(engine.create_upload(&key("often"), attributes).await.expect("create"));
    }
    let after = Some((Bytes::from_static(b"often"), Some(created[3])));
    for (after, expected) in [(None, &created[..]), (after, &created[4..])] {
        let query = UploadQuery { bucket: BUCKET, prefix: Bytes::new(), after, delimiter: Bytes::new(), max_items: 100 };
        let page = engine.uploads(&query).await.expect("uploads");
        let listed: Vec<UploadId> = page.uploads.iter().map(|upload| upload.upload).collect();
        assert_eq!(listed, expected);
    }
}
