//! Space: where it comes from, when it is free again, and what a full device means.

use ::engine::{Condition, Content, EngineError, ObjectEngine};
use device::SyncMode;
use types::limits::CHUNK_BYTES;

use super::support::{Rig, bytes, key};

#[tokio::test(start_paused = true)]
async fn a_store_without_a_mutation_has_no_space() {
    let rig = Rig::new(1).await;
    assert_eq!(rig.get("a").await.expect("reads"), None);
    rig.delete("a").await.expect("an absent object is no error");
    assert_eq!(rig.lent_units(), 0);
    let rig = rig.crash().await;
    rig.put("a", bytes(1, 10)).await.expect("puts");
    assert!(rig.lent_units() > 0);
}

#[tokio::test(start_paused = true)]
async fn space_of_what_is_deleted_is_used_again() {
    let rig = Rig::new(2).await;
    for round in 0..100 {
        rig.put("a", bytes(round, 3 * CHUNK_BYTES)).await.expect("puts");
        rig.store.check().expect("each block has one owner");
    }
    let units = rig.lent_units();
    assert!(units < 20, "{units} units for an object of three");
    rig.delete("a").await.expect("deletes");
    rig.maintain().await;
    rig.maintain().await;
    rig.store.check().expect("each block has one owner");
    assert_eq!(rig.used_blocks(), 0, "nothing is used");
    // A unit of the group's volume stands in up to five of the device.
    assert!(rig.lent_units() <= 5, "{} units stay", rig.lent_units());
}

#[tokio::test(start_paused = true)]
async fn what_was_staged_and_has_no_name_is_free_again() {
    let rig = Rig::new(3).await;
    rig.put("a", bytes(1, 10)).await.expect("puts");
    rig.maintain().await;
    let before = rig.used_blocks();
    let engine = rig.engine();
    let mut staged = engine.stage(&key("b"), None);
    engine.stage_chunk(&mut staged, bytes(2, CHUNK_BYTES).into()).await.expect("stages");
    assert_eq!(rig.used_blocks(), before + 256);
    rig.store.check().expect("each block has one owner");
    drop(staged);
    assert_eq!(rig.used_blocks(), before);
    let mut staged = engine.stage(&key("b"), None);
    engine.stage_chunk(&mut staged, bytes(2, CHUNK_BYTES).into()).await.expect("stages");
    let rig = rig.crash().await;
    rig.store.check().expect("each block has one owner");
    assert_eq!(rig.used_blocks(), before, "no orphan is left by a crash");
    drop(staged);
}

#[tokio::test(start_paused = true)]
async fn a_full_device_refuses_and_takes_deletes() {
    let rig = Rig::with(4, &[20], SyncMode::Always).await;
    let mut names = Vec::new();
    let refused = loop {
        let name = format!("{}", names.len());
        match rig.put(&name, bytes(names.len() as u64, CHUNK_BYTES)).await {
            Ok(()) => names.push(name),
            Err(error) => break error,
        }
        assert!(names.len() < 30, "a device of 20 MiB");
    };
    assert!(matches!(refused, EngineError::Full), "{refused:?}");
    assert!(names.len() >= 3, "{} objects", names.len());
    rig.dump().await;
    for name in &names {
        rig.delete(name).await.expect("deletes");
    }
    rig.store.check().expect("each block has one owner");
    for name in &names {
        rig.put(name, bytes(9, CHUNK_BYTES)).await.expect("its space is there again");
    }
    let rig = rig.crash().await;
    for name in &names {
        assert_eq!(rig.get(name).await.expect("reads"), Some(bytes(9, CHUNK_BYTES)));
    }
}

/// The log is far smaller than what goes through it.
#[tokio::test(start_paused = true)]
async fn the_log_is_cut_by_dumps() {
    let rig = Rig::new(5).await;
    for round in 0..1200u64 {
        rig.put(&format!("{}", round % 50), bytes(round, 5000)).await.expect("puts");
    }
    let stats = rig.store.stats();
    assert!(stats.dumps > 1, "{stats:?}");
    let rig = rig.crash().await;
    rig.store.check().expect("each block has one owner");
    for number in 0..50u64 {
        assert_eq!(rig.get(&format!("{number}")).await.expect("reads"), Some(bytes(1150 + number, 5000)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_keeps_its_version_and_no_other() {
    let rig = Rig::new(6).await;
    rig.put("a", bytes(1, 2 * CHUNK_BYTES)).await.expect("puts");
    let opened = rig.engine().open(&key("a")).await.expect("opens");
    let Content::Chunked(reader) = opened.content else { panic!("it has several pieces") };
    rig.delete("a").await.expect("deletes");
    rig.put("b", bytes(2, CHUNK_BYTES)).await.expect("puts");
    rig.delete("b").await.expect("deletes");
    rig.maintain().await;
    assert_eq!(rig.store.stats().limbo_bytes, 2 * CHUNK_BYTES as u64, "what is read alone");
    for round in 0..30 {
        rig.put("c", bytes(round, CHUNK_BYTES)).await.expect("puts");
    }
    let read = reader.read(0..100).await.expect("reads");
    assert_eq!(read[..], bytes(1, 100)[..]);
    drop(reader);
    rig.maintain().await;
    assert_eq!(rig.store.stats().limbo_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_bit_is_an_error() {
    let rig = Rig::new(7).await;
    rig.put("a", bytes(1, 100_000)).await.expect("puts");
    let extent = {
        let state = rig.store.inner.state.lock();
        let object = state.pg.object(&crate::name::Name::of(&key("a"))).expect("it is there");
        object.content.extents().next().expect("it has blocks")
    };
    let volume = super::support::copy_on(&rig.devices[0]);
    let mut block = volume.read(extent.offset() + 4096, 4096).await.expect("reads");
    block[17] ^= 4;
    volume.write(extent.offset() + 4096, block).await.expect("writes");
    let read = rig.get("a").await;
    assert!(matches!(read, Err(EngineError::Corrupt { .. })), "{read:?}");
    let info = rig.engine().info(&key("a")).await.expect("its attributes are whole");
    assert_eq!(info.length, 100_000);
    rig.engine().delete(&key("a"), Condition::None).await.expect("deletes");
}
