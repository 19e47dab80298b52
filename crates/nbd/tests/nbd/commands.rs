//! Each command, with both kinds of replies.

use std::sync::Arc;

use nbd::{Errno, ExportErrorKind, ExportFacts, NbdConfig};

use crate::client::{
    BLOCK_STATUS, CACHE, Client, DF, FAST_ZERO, FLUSH, FUA, NO_HOLE, READ, REQ_ONE, Reply, Rig, TRIM, WRITE, WRITE_ZEROES,
    option, request, string, write,
};
use crate::memory::{Memory, PAGE_BYTES};
use crate::scripted::Scripted;

const SIZE: u64 = 64 * 1024 * 1024;
const PIECE: u64 = 1024 * 1024;
const PAGE: u64 = PAGE_BYTES as u64;

fn rig_of(export: &Arc<Scripted>) -> Rig {
    Rig::new(vec![export.clone()], NbdConfig::default())
}

fn rig() -> (Arc<Scripted>, Rig) {
    let export = Scripted::at_once(Memory::new("disk", SIZE));
    let rig = rig_of(&export);
    (export, rig)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 253) as u8 + 1).collect()
}

async fn map(client: &mut Client, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
    client.send(&request(flags, BLOCK_STATUS, 5, offset, length)).await;
    let Reply::Chunk { cookie: 5, is_last: true, kind: 5, payload } = client.reply().await else { panic!("a map") };
    assert_eq!(payload[..4], 1_u32.to_be_bytes(), "the context's number");
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    payload[4..].chunks(8).map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect()
}

#[tokio::test]
async fn writes_are_read_back_by_simple_replies() {
    let (export, rig) = rig();
    let mut client = rig.enter_simple().await;
    let data = pattern(8192);
    client.must_succeed(&write(FUA, 1, 4096, &data)).await;
    client.must_succeed(&write(0, 2, PAGE, &data)).await;
    // The read covers a hole, which simple replies send as zeros.
    client.send(&request(0, READ, 3, 0, PAGE as u32 * 3)).await;
    let (reply, content) = client.reply_with(PAGE_BYTES * 3).await;
    assert_eq!(reply, Reply::Simple { cookie: 3, error: 0 });
    let mut expected = vec![0; PAGE_BYTES * 3];
    expected[4096..12288].copy_from_slice(&data);
    expected[PAGE_BYTES..PAGE_BYTES + 8192].copy_from_slice(&data);
    assert!(content == expected);
    client.leave().await;
    let reads = format!("read 0 {}", PAGE * 3);
    assert_eq!(export.take_notes(), ["first", "write 4096 8192 durable", "write 65536 8192", &reads, "last"]);
}

#[tokio::test]
async fn structured_reads_send_holes_as_holes_unless_they_must_not_be_cut() {
    let (_, rig) = rig();
    let mut client = rig.enter().await;
    client.must_succeed(&write(0, 1, PAGE, &pattern(PAGE_BYTES))).await;
    let mut expected = vec![0; PAGE_BYTES * 3];
    expected[PAGE_BYTES..2 * PAGE_BYTES].copy_from_slice(&pattern(PAGE_BYTES));
    assert_eq!(client.read(0, 0, PAGE as u32 * 3).await, Ok((expected.clone(), 3)));
    assert_eq!(client.read(DF, 0, PAGE as u32 * 3).await, Ok((expected, 1)));
    // A small read of data is one chunk.
    assert_eq!(client.read(0, PAGE, 512).await, Ok((pattern(512), 1)));
    client.leave().await;
}

#[tokio::test]
async fn long_requests_reach_the_export_in_pieces() {
    let (export, rig) = rig();
    let mut client = rig.enter().await;
    let data = pattern(3 * PIECE as usize);
    client.must_succeed(&write(FUA, 1, PIECE - 4096, &data)).await;
    let (content, _) = client.read(0, PIECE - 4096, 3 * PIECE as u32).await.expect("it is there");
    assert!(content == data);
    let (content, chunks) = client.read(DF, PIECE - 4096, 3 * PIECE as u32).await.expect("it is there");
    assert!(content == data && chunks == 1);
    let last = PIECE - 4096;
    let expected = [
        "first".to_owned(),
        "write 1044480 4096 durable".to_owned(),
        "write 1048576 1048576 durable".to_owned(),
        "write 2097152 1048576 durable".to_owned(),
        format!("write 3145728 {last} durable"),
        "read 1044480 4096".to_owned(),
        "read 1048576 1048576".to_owned(),
        "read 2097152 1048576".to_owned(),
        format!("read 3145728 {last}"),
        "read 1044480 3145728".to_owned(),
    ];
    assert_eq!(export.take_notes(), expected);
    client.leave().await;
}

#[tokio::test]
async fn the_longest_payload_there_and_back() {
    let (_, rig) = rig();
    let data = pattern(32 * 1024 * 1024);
    let mut client = rig.enter().await;
    client.must_succeed(&write(0, 1, 512, &data)).await;
    let (content, _) = client.read(0, 512, data.len() as u32).await.expect("it is there");
    assert!(content == data);
    client.leave().await;
    let mut client = rig.enter_simple().await;
    client.send(&request(0, READ, 2, 512, data.len() as u32)).await;
    assert!(client.reply_with(data.len()).await == (Reply::Simple { cookie: 2, error: 0 }, data));
    client.leave().await;
}

#[tokio::test]
async fn zeros_trims_and_maps() {
    let (_, rig) = rig();
    let mut client = rig.enter().await;
    let hole = 3;
    assert_eq!(map(&mut client, 0, 0, SIZE as u32).await, [(SIZE as u32, hole)]);
    client.must_succeed(&write(0, 1, PAGE, &pattern(2 * PAGE_BYTES))).await;
    let page = PAGE as u32;
    assert_eq!(map(&mut client, 0, 0, 8 * page).await, [(page, hole), (2 * page, 0), (5 * page, hole)]);
    assert_eq!(map(&mut client, REQ_ONE, 512, 8 * page).await, [(page - 512, hole)]);
    assert_eq!(map(&mut client, REQ_ONE, PAGE, 4096).await, [(4096, 0)]);
    client.must_succeed(&request(FUA, WRITE_ZEROES, 2, PAGE, page)).await;
    client.must_succeed(&request(NO_HOLE, WRITE_ZEROES, 3, 2 * PAGE, page)).await;
    client.must_succeed(&request(FAST_ZERO, WRITE_ZEROES, 4, 5 * PAGE, page)).await;
    client.must_fail(&request(FAST_ZERO | NO_HOLE, WRITE_ZEROES, 5, 5 * PAGE, page), Errno::NotSupported).await;
    assert_eq!(map(&mut client, 0, 0, 4 * page).await, [(2 * page, hole), (page, 0), (page, hole)]);
    assert_eq!(client.read(0, PAGE, 2 * page).await.expect("zeros").0, vec![0; 2 * PAGE_BYTES]);
    client.must_succeed(&request(FUA, TRIM, 6, 2 * PAGE, page)).await;
    assert_eq!(map(&mut client, 0, 0, 4 * page).await, [(4 * page, hole)]);
    client.must_succeed(&request(0, CACHE, 7, 0, page)).await;
    client.must_succeed(&request(0, FLUSH, 8, 0, 0)).await;
    client.leave().await;
}

#[tokio::test]
async fn errors_of_the_export_become_numbers_and_messages() {
    let (export, rig) = rig();
    let kinds = [
        (ExportErrorKind::Io, 5),
        (ExportErrorKind::NoSpace, 28),
        (ExportErrorKind::Invalid, 22),
        (ExportErrorKind::NotPermitted, 1),
        (ExportErrorKind::TooLong, 75),
        (ExportErrorKind::NotFast, 95),
        (ExportErrorKind::ShuttingDown, 108),
    ];
    let mut client = rig.enter_simple().await;
    let mut structured = rig.enter().await;
    for (kind, number) in kinds {
        export.fail_at(4096, kind);
        assert_eq!(client.ask(&write(0, 1, 4096, &[1; 512])).await, number);
        assert_eq!(client.ask(&request(0, READ, 2, 4096, 512)).await, number);
        assert_eq!(client.ask(&request(0, TRIM, 3, 4096, 512)).await, number);
        assert_eq!(structured.read(0, 4096, 512).await, Err(number));
        structured.send(&request(0, WRITE_ZEROES, 9, 4096, 512)).await;
        let message = b"as the test wants it";
        let payload =
            [&number.to_be_bytes()[..], &(message.len() as u16).to_be_bytes(), message, &4096_u64.to_be_bytes()].concat();
        let expected = Reply::Chunk { cookie: 9, is_last: true, kind: (1 << 15) + 2, payload };
        assert_eq!(structured.reply().await, expected);
    }
    client.leave().await;
    structured.leave().await;
}

#[tokio::test]
async fn a_long_request_fails_with_the_piece_that_fails() {
    let (export, rig) = rig();
    export.fail_at(PIECE, ExportErrorKind::NoSpace);
    let mut client = rig.enter().await;
    client.must_fail(&write(0, 1, 0, &pattern(3 * PIECE as usize)), Errno::NoSpace).await;
    assert_eq!(client.read(0, 0, 3 * PIECE as u32).await, Err(Errno::NoSpace.number()));
    // The connection goes on, and nothing of the failed ones is still counted.
    for _ in 0..40 {
        assert_eq!(client.read(0, 0, 3 * PIECE as u32).await, Err(Errno::NoSpace.number()));
    }
    client.must_succeed(&request(0, FLUSH, 2, 0, 0)).await;
    client.leave().await;
}

#[tokio::test]
async fn replies_come_in_the_order_in_which_operations_end() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_of(&export);
    let mut client = rig.enter_simple().await;
    client.send(&[write(0, 1, 0, &[1; 4096]), request(0, 99, 2, 0, 0), write(0, 3, 4096, &[3; 4096])].concat()).await;
    assert_eq!(client.reply().await, Reply::Simple { cookie: 2, error: Errno::Invalid.number() });
    export.let_pass(1);
    assert_eq!(client.reply().await.cookie(), 1);
    export.let_pass(1);
    assert_eq!(client.reply().await.cookie(), 3);
    client.leave().await;
}

#[tokio::test]
async fn a_read_only_export_refuses_changes() {
    let facts = ExportFacts { size_bytes: SIZE, is_read_only: true, can_trim: true, ..ExportFacts::default() };
    let rig = Rig::new(vec![Arc::new(Memory::with_facts("disk", facts))], NbdConfig::default());
    let mut client = rig.connect().await;
    assert_eq!(client.go("disk").await, (SIZE, 0b1111));
    client.must_fail(&write(0, 1, 0, &[1; 4096]), Errno::NotPermitted).await;
    client.must_fail(&request(0, WRITE_ZEROES, 2, 0, 512), Errno::NotPermitted).await;
    client.must_fail(&request(0, TRIM, 3, 0, 512), Errno::NotPermitted).await;
    client.must_succeed(&request(0, FLUSH, 4, 0, 0)).await;
    client.leave().await;
}

#[tokio::test]
async fn a_new_size_is_seen_at_the_next_connection() {
    let memory = Arc::new(Memory::new("disk", SIZE));
    let rig = Rig::new(vec![memory.clone()], NbdConfig::default());
    let mut before = rig.enter().await;
    memory.resize(SIZE / 2);
    let mut after = rig.connect().await;
    assert_eq!(after.go("disk").await.0, SIZE / 2);
    // The server lets the former size pass; the export does not.
    before.must_fail(&write(0, 1, SIZE / 2, &[1; 512]), Errno::Invalid).await;
    after.must_fail(&write(0, 1, SIZE / 2, &[1; 512]), Errno::NoSpace).await;
    memory.resize(2 * SIZE);
    let mut grown = rig.connect().await;
    assert_eq!(grown.go("").await.0, 2 * SIZE);
    for client in [before, after, grown] {
        client.leave().await;
    }
}

#[tokio::test]
async fn connections_see_each_others_writes() {
    let (_, rig) = rig();
    let (mut one, mut other) = (rig.enter().await, rig.enter().await);
    for round in 0..20_u8 {
        one.must_succeed(&write(0, 1, 4096, &[round; 512])).await;
        assert_eq!(other.read(0, 4096, 512).await.expect("it is there").0, [round; 512]);
    }
    one.leave().await;
    other.leave().await;
}

#[tokio::test]
async fn names_and_lists() {
    let exports: Vec<Arc<dyn nbd::Export>> = vec![Arc::new(Memory::new("one", SIZE)), Arc::new(Memory::new("two", 512))];
    let rig = Rig::new(exports, NbdConfig::default());
    let mut client = rig.connect().await;
    let (kind, entries) = client.option(3, b"").await;
    let entry = |name: &str, size: u64| [&string(name)[..], format!("{size} bytes of memory").as_bytes()].concat();
    assert_eq!((kind, entries), (1, vec![entry("one", SIZE), entry("two", 512), vec![]]));
    let go = |name: &str| [&string(name)[..], &0_u16.to_be_bytes()].concat();
    assert_eq!(client.option(7, &go("three")).await, ((1 << 31) + 6, vec![b"there is no export of this name".to_vec()]));
    assert_eq!(client.option(6, &go("two")).await.0, 1);
    assert_eq!(client.go("two").await.0, 512);
    client.leave().await;
    // Without a way to say no, the connection ends.
    let mut client = rig.connect().await;
    client.send(&option(1, b"three")).await;
    client.must_be_ended().await;
}

#[tokio::test]
async fn a_write_and_a_disconnect_in_one_go_are_both_done() {
    let export = Scripted::gated(Memory::new("disk", SIZE));
    let rig = rig_of(&export);
    let mut client = rig.enter_simple().await;
    client.send(&[write(0, 1, 0, &[1; 4096]), request(0, 2, 2, 0, 0), request(0, WRITE, 3, 0, 512)].concat()).await;
    while export.note_count() < 2 {
        tokio::task::yield_now().await;
    }
    export.let_pass(1);
    assert_eq!(client.reply().await, Reply::Simple { cookie: 1, error: 0 });
    client.must_be_ended().await;
    assert_eq!(export.take_notes(), ["first", "write 0 4096", "last"]);
}
