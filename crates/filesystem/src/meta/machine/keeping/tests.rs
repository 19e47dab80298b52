//! The bytes of rows, as `docs/format.md` has them.

use consensus::Rows;

use crate::ids::{ExtentId, ExtentKey, Ino};
use crate::meta::{
    Command, Envelope, Expected, Kind, Lock, LockFamily, LockOwner, LockRange, Machine, MetaSession, NewInode, Time,
};

const SESSION: MetaSession = MetaSession(7);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tree with a row in each table.
fn tree() -> Machine {
    let mut machine = Machine::default();
    let mut sequence = 0;
    let mut run = |session, command| {
        sequence += 1;
        let now = Time { seconds: sequence as i64, nanos: 5 };
        let envelope = Envelope { session, sequence, answered_below: sequence, now, locks_lost: 0, command };
        machine.carry_out(&envelope).unwrap();
    };
    let new = |kind| NewInode {
        kind,
        mode: 0o644,
        uid: 1,
        gid: 2,
        rdev: 0,
        target: Vec::new(),
        xattrs: vec![(b"user.x".to_vec(), b"y".to_vec())],
    };
    let ino = Ino(2);
    run(SESSION, Command::OpenSession);
    run(SESSION, Command::Make { parent: Ino::ROOT, name: b"name".to_vec(), new: new(Kind::File) });
    let key =
        ExtentKey { file_offset: 4096, extent: ExtentId { partition: 1, term: 2, number: 3 }, extent_offset: 0, len: 9000 };
    let expects = Expected { cuts: 0, size: None };
    run(SESSION, Command::Commit { ino, keys: vec![key], least_size: 13_096, kills_set_ids: false, expects });
    run(SESSION, Command::Punch { ino, offset: 4096, len: 4096, expects });
    run(SESSION, Command::MakeUnnamed { parent: Ino::ROOT, new: new(Kind::File) });
    run(MetaSession::LEADER, Command::SetQuota { bytes: Some(1000), inodes: None });
    let owner = LockOwner { family: LockFamily::Flock, number: 8 };
    let lock = Lock { owner, range: LockRange::ALL, is_exclusive: true, pid: 9 };
    run(SESSION, Command::Lock { ino, lock });
    machine
}

#[test]
fn golden_bytes_of_a_row_of_each_table() {
    let rows: Vec<String> = tree()
        .take_changes()
        .into_iter()
        .map(|(key, value)| format!("{} {}", hex(&key), hex(&value.expect("nothing was stored that is gone"))))
        .collect();
    assert_eq!(rows, GOLDEN, "{rows:#?}");
}

const GOLDEN: [&str; 10] = [
    "00 0401804001e8070000000000",
    "010000000000000001 01ed030000020001000000040504050000010000",
    "010000000000000002 00a403010201a86602010405080508050405000180400102038020a8260100000106757365722e780179",
    "010000000000000003 00a4030102000000000a050a050a050a0500000100000106757365722e780179",
    "02000000000000000120a8d4dffc300000 0200046e616d65",
    "030000000000000007 0700",
    "0400000000000000070000000000000007 00040200a40301020100a86610040508050805040502010000",
    "050000000000000003 0107",
    "060000000000000002 0107010800ffffffffffffffffff010109",
    "0700000000000000010000000000000001 01010203008020",
];
