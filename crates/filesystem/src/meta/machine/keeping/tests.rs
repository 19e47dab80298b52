//! The bytes of rows, as `docs/format.md` has them.

use consensus::Rows;

use crate::ids::{ExtentId, ExtentKey, Ino, TreeIndex};
use crate::meta::{
    Command, Done, Envelope, Expected, Kind, Lock, LockFamily, LockOwner, LockRange, Machine, MetaSession, NewInode, Part,
    PartAnswer, Prepared, Time, TransactionId,
};

const SESSION: MetaSession = MetaSession(7);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn envelope(session: MetaSession, sequence: u64, command: Command) -> Envelope {
    let now = Time { seconds: sequence as i64, nanos: 5 };
    Envelope { session, sequence, answered_below: sequence, now, locks_lost: 0, command }
}

fn new(kind: Kind) -> NewInode {
    let xattrs = vec![(b"user.x".to_vec(), b"y".to_vec())];
    NewInode { kind, mode: 0o644, uid: 1, gid: 2, rdev: 0, target: Vec::new(), xattrs }
}

/// A tree with a row in each table.
fn tree() -> Machine {
    let mut machine = Machine::default();
    let mut sequence = 0;
    let mut run = |session, command| {
        sequence += 1;
        machine.carry_out(&envelope(session, sequence, command)).unwrap()
    };
    let ino = Ino(2);
    run(SESSION, Command::OpenSession { is_exclusive: false });
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
    run(MetaSession::LEADER, Command::SetElsewhere { bytes: 300, inodes: 4 });
    run(MetaSession::LEADER, Command::Reign);
    let (command, prepared) = made_elsewhere();
    let id = TransactionId { tree: TreeIndex(0), reign: 1, number: 6 };
    run(SESSION, Command::Decide { id, command: Box::new(command), prepared: vec![prepared] });
    let id = TransactionId { tree: TreeIndex(2), reign: 7, number: 8 };
    run(MetaSession::LEADER, Command::Prepare { id, part: Part::GainName { ino } });
    run(MetaSession::LEADER, Command::Passed { tree: TreeIndex(2), below: (7, 5) });
    machine
}

/// A directory whose inode is in tree 1.
fn made_elsewhere() -> (Command, Prepared) {
    let command = Command::Make { parent: Ino::ROOT, name: b"there".to_vec(), new: new(Kind::Directory) };
    let part = Part::NewDirectory { tree: TreeIndex(1), parent: Ino::ROOT, new: new(Kind::Directory) };
    let id = TransactionId { tree: TreeIndex(0), reign: 1, number: 6 };
    let prepare = Command::Prepare { id, part: part.clone() };
    let answer: PartAnswer = match Machine::of_tree(TreeIndex(1)).carry_out(&envelope(MetaSession::LEADER, 3, prepare)) {
        Ok(Done::Part(answer)) => answer,
        other => panic!("{other:?}"),
    };
    (command, Prepared { part, answer })
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

const GOLDEN: [&str; 14] = [
    "00 0401804001e80700ac02040100",
    "010000000000000001 01ed030000030002000000140514050000010000",
    "010000000000000002 00a403010201a86602010405080508050405000180400102038020a8260100000106757365722e780179",
    "010000000000000003 00a4030102000000000a050a050a050a0500000100000106757365722e780179",
    "02000000000000000120a8d4dffc300000 0200046e616d65",
    "02000000000000000138913c61fda00000 8280808080804001057468657265",
    "030000000000000007 0a0000",
    "040000000000000007000000000000000a 00018280808080804001a4030102020000000605060506050605000000",
    "050000000000000003 0107",
    "060000000000000002 0107010800ffffffffffffffffff010109",
    "0700000000000000010000000000000001 01010203008020",
    "08000000000000000200000000000000070000000000000008 1605010102010200a40301020200a86610040508051605040502010000",
    "0900000000000000010000000000000006 0101",
    "0a0000000000000002 0705",
];
