//! How a server ends. The clock is stopped.

use std::sync::Arc;

use nbd::{Errno, Listener, NbdConfig, NbdServer, Stop, Timeouts};
use tokio::sync::watch;

use crate::client::{Reply, Rig, request, string, write};
use crate::memory::{Fixed, Memory};
use crate::scripted::Scripted;

const SIZE: u64 = 16 << 20;

async fn under_way(export: &Scripted, notes: usize) {
    while export.note_count() < notes {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_answered_and_the_rest_is_refused() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.enter().await;
    client.send(&write(0, 1, 0, &[1; 4096])).await;
    under_way(&export, 2).await;
    rig.stop.send_replace(Stop::End);
    client.must_fail(&write(0, 2, 4096, &[2; 70_000 / 512 * 512]), Errno::Shutdown).await;
    assert_eq!(client.read(0, 0, 512).await, Err(Errno::Shutdown.number()));
    export.let_pass(1);
    assert_eq!(client.reply().await, Reply::Simple { cookie: 1, error: 0 });
    // For a while it still refuses, then it ends.
    client.must_fail(&request(0, 3, 4, 0, 0), Errno::Shutdown).await;
    client.must_be_ended().await;
    assert_eq!(export.take_notes(), ["first", "write 0 4096", "last"]);
}

#[tokio::test(start_paused = true)]
async fn before_a_restart_nothing_is_refused() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.enter().await;
    client.send(&write(0, 1, 0, &[1; 4096])).await;
    under_way(&export, 2).await;
    rig.stop.send_replace(Stop::Restart);
    tokio::task::yield_now().await;
    client.send(&write(0, 2, 4096, &[2; 4096])).await;
    export.let_pass(2);
    assert_eq!(client.reply().await, Reply::Simple { cookie: 1, error: 0 });
    client.must_be_ended().await;
    assert_eq!(export.take_notes(), ["first", "write 0 4096", "last"]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_hangs_is_given_up() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = Rig::new(vec![export.clone()], NbdConfig::default());
    let mut client = rig.enter().await;
    client.send(&write(0, 1, 0, &[1; 4096])).await;
    under_way(&export, 2).await;
    rig.stop.send_replace(Stop::End);
    client.must_be_ended().await;
    assert_eq!(export.take_notes(), ["first", "write 0 4096", "last"]);
}

#[tokio::test(start_paused = true)]
async fn clients_that_negotiate_are_told() {
    let rig = Rig::new(vec![Arc::new(Memory::new("disk", SIZE))], NbdConfig::default());
    let mut client = rig.connect().await;
    assert_eq!(client.option(8, b"").await.0, 1);
    rig.stop.send_replace(Stop::End);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let go = [&string("disk")[..], &0_u16.to_be_bytes()].concat();
    assert_eq!(client.option(7, &go).await, ((1 << 31) + 7, vec![b"the server is shutting down".to_vec()]));
    assert_eq!(client.option(2, b"").await.0, 1);
    client.must_be_ended().await;
}

#[tokio::test]
async fn a_server_returns_when_its_connections_have_ended_and_its_socket_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nbd.sock");
    let timeouts = Timeouts { grace: std::time::Duration::ZERO, ..Timeouts::default() };
    let exports = Arc::new(Fixed(vec![Arc::new(Memory::new("disk", SIZE))]));
    let server = NbdServer::new(exports, NbdConfig { timeouts, ..NbdConfig::default() });
    let stop = watch::Sender::new(Stop::Run);
    let unix = Listener::unix(&path).expect("a free path");
    let tcp = Listener::tcp("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let address = tcp.address().expect("bound").expect("it is TCP");
    let serving = [unix, tcp].map(|listener| tokio::spawn(server.clone().serve(listener, stop.subscribe())));
    let mut clients = (
        tokio::net::UnixStream::connect(&path).await.expect("it listens"),
        tokio::net::TcpStream::connect(address).await.expect("it listens"),
    );
    let mut greeting = [0; 18];
    tokio::io::AsyncReadExt::read_exact(&mut clients.0, &mut greeting).await.expect("a greeting");
    tokio::io::AsyncReadExt::read_exact(&mut clients.1, &mut greeting).await.expect("a greeting");
    assert_eq!(server.connection_count(), 2);
    stop.send_replace(Stop::End);
    for serving in serving {
        serving.await.expect("no panic").expect("it ends well");
    }
    assert_eq!(server.connection_count(), 0);
    assert!(!path.exists());
}
