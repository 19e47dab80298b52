//! What an export hears of its clients.

use nbd::{NbdConfig, OpenError};

use crate::client::{Rig, string, write};
use crate::memory::Memory;
use crate::scripted::Scripted;

#[tokio::test]
async fn the_first_client_and_the_last() {
    let export = Scripted::at_once(Memory::new("disk", 1 << 20));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let (one, other) = tokio::join!(rig.enter(), rig.enter());
    assert_eq!(export.take_notes(), ["first"]);
    one.leave().await;
    assert_eq!(export.note_count(), 0);
    // A client that vanishes within a request counts as one that leaves.
    let mut other = other;
    other.send(&write(0, 1, 0, &[1; 4096])[..100]).await;
    drop(other.stream);
    other.served.await.expect("no panic");
    assert_eq!(export.take_notes(), ["last"]);
    rig.enter().await.leave().await;
    assert_eq!(export.take_notes(), ["first", "last"]);
    assert_eq!(rig.server.connection_count(), 0);
}

#[tokio::test]
async fn looking_is_not_entering() {
    let export = Scripted::at_once(Memory::new("disk", 1 << 20));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.connect().await;
    let data = [&string("disk")[..], &0_u16.to_be_bytes()].concat();
    assert_eq!(client.option(6, &data).await.0, 1);
    assert_eq!(client.option(3, b"").await.0, 1);
    assert_eq!(client.option(2, b"").await.0, 1);
    client.must_be_ended().await;
    assert_eq!(export.note_count(), 0);
}

#[tokio::test]
async fn an_export_may_refuse_its_first_client() {
    let export = Scripted::at_once(Memory::new("disk", 1 << 20));
    *export.refusal.lock().expect("no panic") = Some(OpenError::NotPermitted("node 7 holds it".to_owned()));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.connect().await;
    let data = [&string("disk")[..], &0_u16.to_be_bytes()].concat();
    assert_eq!(client.option(7, &data).await, ((1 << 31) + 2, vec![b"node 7 holds it".to_vec()]));
    // It is asked again by the next one, which may be the same.
    *export.refusal.lock().expect("no panic") = None;
    client.go("disk").await;
    client.leave().await;
    assert_eq!(export.take_notes(), ["first", "first", "last"]);
}

#[tokio::test]
async fn a_client_that_vanishes_while_its_write_is_under_way_leaves_after_it() {
    let export = Scripted::gated(Memory::new("disk", 1 << 20));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.enter().await;
    client.send(&write(0, 1, 0, &[1; 4096])).await;
    while export.note_count() < 2 {
        tokio::task::yield_now().await;
    }
    drop(client.stream);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(export.take_notes(), ["first", "write 0 4096"], "the write is not done yet");
    export.let_pass(1);
    client.served.await.expect("no panic");
    assert_eq!(export.take_notes(), ["last"]);
}
