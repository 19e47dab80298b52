//! Single transactions, and what they must not do.

use super::world::{World, envelope, session};
use crate::ids::{ExtentId, ExtentKey, Ino, TreeIndex};
use crate::meta::{
    Command, Done, Envelope, Expected, Found, Kind, MetaError, MetaSession, Move, NewInode, Part, Prepared, Query, RenameHow,
    Reply, TransactionId,
};

/// A volume, and one client of it.
struct Volume {
    world: World,
    runtime: tokio::runtime::Runtime,
    sequence: u64,
}

fn new(kind: Kind) -> NewInode {
    NewInode { kind, mode: 0o644, uid: 1, gid: 2, rdev: 0, target: Vec::new(), xattrs: Vec::new() }
}

fn name(name: &str) -> Vec<u8> {
    name.into()
}

impl Volume {
    fn new() -> Volume {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Volume { world: World::new(1, 1), runtime, sequence: 0 }
    }

    fn next(&mut self, command: Command) -> Envelope {
        self.sequence += 1;
        envelope(session(0), self.sequence, command)
    }

    fn send(&self, tree: u16, envelope: &Envelope, new_directory: u16) -> Option<Reply> {
        self.runtime.block_on(self.world.leader(TreeIndex(tree)).run(envelope, TreeIndex(new_directory)))
    }

    fn make(&mut self, parent: Ino, called: &str, kind: Kind, tree: u16) -> Ino {
        let envelope = self.next(Command::Make { parent, name: name(called), new: new(kind) });
        match self.send(parent.tree().0, &envelope, tree) {
            Some(Ok(Done::Inode(made))) => made.ino,
            other => panic!("{other:?}"),
        }
    }

    /// Puts a leader's command into a tree's log.
    fn order(&self, tree: u16, command: Command) -> Reply {
        self.world.machine(TreeIndex(tree)).carry_out(&envelope(MetaSession::LEADER, u64::MAX, command))
    }

    fn links(&self, ino: Ino) -> Result<u32, MetaError> {
        match self.world.machine(ino.tree()).query(&Query::Inode { ino })? {
            Found::Inode(inode) => Ok(inode.nlink),
            other => panic!("{other:?}"),
        }
    }

    /// A file of tree 1 with a name there.
    fn file(&mut self) -> (Ino, Ino) {
        let directory = self.make(Ino::ROOT, "d", Kind::Directory, 1);
        (directory, self.make(directory, "f", Kind::File, 1))
    }
}

/// The first transaction of another tree's third leader.
const OTHER: TransactionId = TransactionId { tree: TreeIndex(2), reign: 3, number: 0 };

#[test]
fn a_directory_is_not_moved_below_itself_where_its_own_transaction_has_locked_it() {
    let mut volume = Volume::new();
    let top = volume.make(Ino::ROOT, "s", Kind::Directory, 1);
    let low = volume.make(top, "p", Kind::Directory, 1);
    let rename = |how| Command::Rename { from: (Ino::ROOT, name("s")), to: (low, name("x")), how };
    let envelope = volume.next(rename(RenameHow::Replace));
    assert_eq!(volume.send(0, &envelope, 0), Some(Err(MetaError::Below)));
    volume.runtime.block_on(volume.world.settle_all());
    assert_eq!(volume.world.walk().unwrap().len(), 2);
}

#[test]
fn a_refusal_is_remembered() {
    let mut volume = Volume::new();
    volume.make(Ino::ROOT, "a", Kind::Directory, 1);
    let refused = volume.next(Command::Make { parent: Ino::ROOT, name: name("a"), new: new(Kind::Directory) });
    assert_eq!(volume.send(0, &refused, 2), Some(Err(MetaError::Exists)));
    let removed = volume.next(Command::Rmdir { parent: Ino::ROOT, name: name("a") });
    assert!(matches!(volume.send(0, &removed, 0), Some(Ok(Done::Unlinked(_)))));
    // A copy that comes late makes nothing.
    assert_eq!(volume.send(0, &refused, 2), Some(Err(MetaError::Exists)));
    assert_eq!(volume.world.walk().unwrap().len(), 0);
}

#[test]
fn copies_of_orders_have_no_effect_when_their_transaction_is_forgotten() {
    let mut volume = Volume::new();
    let (_, file) = volume.file();
    let linked = volume.next(Command::Link { ino: file, parent: Ino::ROOT, name: name("g") });
    assert!(matches!(volume.send(0, &linked, 0), Some(Ok(Done::Inode(_)))));
    let id = volume.world.machine(TreeIndex(0)).decided().last().expect("it is noted").0;
    let prepare = || volume.order(1, Command::Prepare { id, part: Part::GainName { ino: file } });
    assert_eq!((prepare(), volume.links(file)), (Err(MetaError::Busy), Ok(2)), "it has taken effect");
    // Of a leader that has asked before that, and was told that the transaction is forgotten.
    volume.order(1, Command::Conclude { id, is_done: false }).unwrap();
    assert_eq!(prepare(), Err(MetaError::Busy));
    volume.runtime.block_on(volume.world.settle_all());
    assert_eq!(prepare(), Err(MetaError::Busy), "all up to it are over");
    volume.order(1, Command::Conclude { id, is_done: true }).unwrap();
    assert_eq!(volume.links(file), Ok(2));
}

#[test]
fn what_is_locked_is_neither_read_nor_changed() {
    let mut volume = Volume::new();
    let (_, file) = volume.file();
    volume.order(1, Command::Prepare { id: OTHER, part: Part::GainName { ino: file } }).unwrap();
    assert_eq!(volume.links(file), Err(MetaError::Busy));
    let key = ExtentKey { file_offset: 0, extent: ExtentId { partition: 1, term: 1, number: 1 }, extent_offset: 0, len: 4096 };
    let commit = Command::Commit {
        ino: file,
        keys: vec![key],
        least_size: 4096,
        kills_set_ids: false,
        expects: Expected { cuts: 0, size: None },
    };
    let (commit, not_open) = (volume.next(commit), volume.next(Command::NotOpen { inos: vec![file] }));
    for envelope in [&commit, &not_open] {
        assert_eq!(volume.world.machine(TreeIndex(1)).carry_out(envelope), Err(MetaError::Busy));
    }
    volume.order(1, Command::Conclude { id: OTHER, is_done: false }).unwrap();
    assert_eq!(volume.links(file), Ok(1));
    assert!(volume.world.machine(TreeIndex(1)).carry_out(&commit).is_ok(), "the same envelope again");
    assert_eq!(volume.world.machine(TreeIndex(1)).freed_partitions(), [] as [u32; 0]);
}

/// Caught: it stayed for ever, because no session was left that could say that it has it closed.
#[test]
fn an_inode_goes_that_loses_its_last_name_when_all_sessions_have_ended() {
    let mut volume = Volume::new();
    let (_, file) = volume.file();
    let before = volume.world.machine(TreeIndex(1)).usage().inodes;
    volume.order(1, Command::Prepare { id: OTHER, part: Part::LoseName { ino: file } }).unwrap();
    volume.world.for_all_sessions(&Command::CloseSession);
    volume.order(1, Command::Conclude { id: OTHER, is_done: true }).unwrap();
    assert_eq!(volume.world.machine(TreeIndex(1)).usage().inodes, before - 1);
}

#[test]
fn keys_of_another_trees_file_are_not_freed() {
    let mut volume = Volume::new();
    let (_, file) = volume.file();
    let key = ExtentKey { file_offset: 0, extent: ExtentId { partition: 1, term: 1, number: 1 }, extent_offset: 0, len: 4096 };
    let expects = Expected { cuts: 0, size: None };
    let commit = Command::Commit { ino: file, keys: vec![key], least_size: 0, kills_set_ids: false, expects };
    let commit = volume.next(commit);
    let mut tree = volume.world.machine(TreeIndex(0));
    assert_eq!((tree.carry_out(&commit), tree.freed_partitions()), (Err(MetaError::Across), Vec::new()));
}

#[test]
fn no_directory_moves_in_the_first_tree_while_another_transaction_moves_one() {
    let mut volume = Volume::new();
    let (from, to) = (volume.make(Ino::ROOT, "a", Kind::Directory, 0), volume.make(Ino::ROOT, "b", Kind::Directory, 0));
    volume.make(from, "x", Kind::Directory, 0);
    let moves = vec![Move { directory: TreeIndex(1).first_ino(), to: TreeIndex(2).first_ino() }];
    volume.order(0, Command::Prepare { id: OTHER, part: Part::MoveLock { moves } }).unwrap();
    let rename = Command::Rename { from: (from, name("x")), to: (to, name("y")), how: RenameHow::Replace };
    let rename = volume.next(rename);
    let carry_out = || volume.world.machine(TreeIndex(0)).carry_out(&rename);
    assert_eq!(carry_out(), Err(MetaError::Busy));
    volume.order(0, Command::Conclude { id: OTHER, is_done: false }).unwrap();
    assert_eq!(carry_out(), Ok(Done::Renamed(None)));
}

/// Caught: the leader had looked for loops above one directory, and another one with the same name was moved.
#[test]
fn a_move_that_was_looked_at_is_of_that_directory() {
    let mut volume = Volume::new();
    let parent = volume.make(Ino::ROOT, "a", Kind::Directory, 0);
    let one = volume.make(parent, "x", Kind::Directory, 0);
    let other = volume.make(parent, "y", Kind::Directory, 0);
    let to = volume.make(other, "b", Kind::Directory, 0);
    let id = TransactionId { tree: TreeIndex(0), reign: 1, number: 1000 };
    let part = Part::MoveLock { moves: vec![Move { directory: one, to }] };
    let Ok(Done::Part(answer)) = volume.order(0, Command::Prepare { id, part: part.clone() }) else { panic!("it is held") };
    let exchange = Command::Rename { from: (parent, name("x")), to: (parent, name("y")), how: RenameHow::Exchange };
    let exchange = volume.next(exchange);
    volume.world.machine(TreeIndex(0)).carry_out(&exchange).unwrap();
    let command = Command::Rename { from: (parent, name("x")), to: (to, name("c")), how: RenameHow::Replace };
    let prepared = vec![Prepared { part, answer }];
    let decide = volume.next(Command::Decide { id, command: Box::new(command), prepared });
    assert_eq!(volume.world.machine(TreeIndex(0)).carry_out(&decide), Err(MetaError::Busy));
}
