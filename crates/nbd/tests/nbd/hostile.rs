//! Clients that break the rules. The clock is stopped where they make the server wait.

use std::sync::Arc;
use std::time::Duration;

use nbd::{Errno, MAX_SKIPPED_BYTES, NbdConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{FLUSH, READ, Rig, WRITE, option, request, write};
use crate::memory::Memory;

const SIZE: u64 = 16 << 20;

fn rig() -> Rig {
    Rig::new(vec![Arc::new(Memory::new("disk", SIZE))], NbdConfig::default())
}

#[tokio::test]
async fn bad_magic_ends_the_connection() {
    let rig = rig();
    let mut client = rig.connect().await;
    client.send(b"GET / HTTP/1.1\r\n\r\n").await;
    client.must_be_ended().await;
    let mut client = rig.enter().await;
    client.send(b"GET / HTTP/1.1\r\n\r\n").await;
    client.must_be_ended().await;
    let mut client = rig.connect_raw();
    client.stream.read_exact(&mut [0; 18]).await.expect("a greeting");
    client.send(&0x1000_u32.to_be_bytes()).await;
    client.must_be_ended().await;
    rig.enter().await.leave().await;
}

#[tokio::test]
async fn what_came_before_bad_magic_is_answered() {
    let rig = rig();
    let mut client = rig.enter().await;
    client.send(&[write(0, 1, 0, &[1; 512]), b"garbage".to_vec()].concat()).await;
    let reply = client.reply().await;
    assert_eq!((reply.cookie(), reply.error()), (1, 0));
    client.must_be_ended().await;
}

#[tokio::test]
async fn refused_requests_leave_the_connection_in_step() {
    let rig = rig();
    let mut client = rig.enter().await;
    let refused = [
        (request(0, READ, 1, 1, 512), Errno::Invalid),
        (request(0, READ, 1, SIZE, 512), Errno::Invalid),
        (request(0, READ, 1, 0, 1 << 30), Errno::Invalid),
        (request(0xff00, READ, 1, 0, 512), Errno::Invalid),
        (request(0, 1234, 1, 0, 512), Errno::Invalid),
        (write(0, 1, SIZE - 512, &[1; 1024]), Errno::NoSpace),
        (write(0, 1, u64::MAX - 511, &[1; 1024]), Errno::NoSpace),
        (write(0, 1, 7, &[1; 100]), Errno::Invalid),
        (write(0, 1, 0, &[]), Errno::Invalid),
        (write(0, 1, 0, &vec![1; MAX_SKIPPED_BYTES as usize]), Errno::Invalid),
        (request(0, FLUSH, 1, 1, 0), Errno::Invalid),
    ];
    for (bytes, error) in refused {
        client.must_fail(&bytes, error).await;
    }
    assert_eq!(client.read(0, 0, 4096).await.expect("nothing was written").0, [0; 4096]);
    client.leave().await;
}

#[tokio::test]
async fn a_write_too_long_to_skip_ends_the_connection() {
    let rig = rig();
    let mut client = rig.enter().await;
    client.send(&request(0, WRITE, 1, 0, MAX_SKIPPED_BYTES + 1)).await;
    client.must_be_ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_choose_is_cut() {
    let rig = rig();
    let silent = rig.connect_raw();
    let idle = rig.connect().await;
    let mut dripping = rig.connect().await;
    for byte in option(3, b"") {
        // Activity does not prolong it.
        if dripping.stream.write_all(&[byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    dripping.must_be_ended().await;
    idle.must_be_ended().await;
    silent.served.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_request_sent_in_half_is_cut_and_an_idle_client_is_not() {
    let rig = rig();
    let mut idle = rig.enter().await;
    let mut half_header = rig.enter().await;
    half_header.send(&request(0, READ, 1, 0, 512)[..20]).await;
    let mut half_payload = rig.enter().await;
    half_payload.send(&write(0, 1, 0, &[1; 65536])[..40_000]).await;
    half_header.must_be_ended().await;
    half_payload.must_be_ended().await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    idle.must_succeed(&request(0, FLUSH, 1, 0, 0)).await;
    idle.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_replies_is_cut() {
    let rig = rig();
    let mut client = rig.enter().await;
    client.send(&request(0, READ, 1, 0, 8 << 20)).await;
    let mut other = rig.enter().await;
    // A hole is short: data is what clogs.
    other.must_succeed(&write(0, 1, 0, &vec![1; 8 << 20])).await;
    other.send(&request(0, READ, 1, 0, 8 << 20)).await;
    other.served.await.expect("no panic");
    // The first one's replies fit into the pipe.
    assert!(!client.served.is_finished());
    client.reply().await;
}

// The clock moves only when nothing else does, so the wait ends when the server has stopped reading.
#[tokio::test(start_paused = true)]
async fn a_flood_of_requests_without_a_reader_stays_bounded() {
    let rig = rig();
    let mut client = rig.enter().await;
    // Refused requests cost no place in flight, and their replies are longer than they are.
    let flood = request(0, 99, 1, 0, 0).repeat(1000);
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(200), client.stream.write_all(&flood)).await.is_ok() {
        sent += flood.len();
        assert!(sent < 64 << 20, "the server reads on and on");
    }
    assert!(sent > 64 * 1024, "some were taken");
    // It goes on when the client reads.
    assert_eq!(client.reply().await.error(), Errno::Invalid.number());
}

#[tokio::test]
async fn more_connections_than_allowed_are_closed() {
    let mut config = NbdConfig::default();
    config.limits.connections = 2;
    let rig = Rig::new(vec![Arc::new(Memory::new("disk", SIZE))], config);
    let (one, two) = (rig.enter().await, rig.connect().await);
    rig.connect_raw().must_be_ended().await;
    one.leave().await;
    rig.enter().await.leave().await;
    drop(two.stream);
}
