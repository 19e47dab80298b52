//! Clients that send random commands about names at once, each the next one when it has the reply to the one before.

use futures_util::future::join_all;
use futures_util::future::{Either, select};
use parking_lot::Mutex;
use std::pin::pin;

use super::world::{Faults, World, envelope, session};
use crate::ids::{Ino, TreeIndex};
use crate::meta::{Command, Done, Envelope, Kind, NewInode, RenameHow, Reply};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// Tries of a command before its client waits until nothing goes wrong.
const TRIES: usize = 30;

/// A command and what came of it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub client: u64,
    pub command: Command,
    /// Counts beginnings and ends of all.
    pub begun: u64,
    pub ended: u64,
    pub reply: Reply,
}

impl Entry {
    fn text(&self) -> String {
        let place = |(parent, name): (&Ino, &[u8])| format!("{:x}/{}", parent.0, String::from_utf8_lossy(name));
        let command = match &self.command {
            Command::Make { parent, name, new } => format!("make {:?} {}", new.kind, place((parent, name))),
            Command::Link { ino, parent, name } => format!("link {:x} {}", ino.0, place((parent, name))),
            Command::Unlink { parent, name } => format!("unlink {}", place((parent, name))),
            Command::Rmdir { parent, name } => format!("rmdir {}", place((parent, name))),
            Command::Rename { from, to, how } => {
                format!("rename {} {} {how:?}", place((&from.0, &from.1)), place((&to.0, &to.1)))
            }
            other => format!("{other:?}"),
        };
        let reply = match &self.reply {
            Ok(Done::Inode(inode) | Done::Unlinked(inode) | Done::Renamed(Some(inode))) => {
                format!("{:x}, {} names", inode.ino.0, inode.nlink)
            }
            other => format!("{other:?}"),
        };
        format!("client {} from {} to {}: {command}: {reply}", self.client, self.begun, self.ended)
    }
}

#[derive(Default)]
pub struct History {
    pub entries: Vec<Entry>,
    /// All inodes that were ever made.
    shown: Vec<(Ino, Kind)>,
    sequences: Vec<u64>,
}

/// A command without a reply.
struct Open {
    client: u64,
    begun: u64,
    envelope: Envelope,
}

/// What clients share while they run.
struct Shared {
    clock: u64,
    shown: Vec<(Ino, Kind)>,
    entries: Vec<Entry>,
    open: Vec<Open>,
}

impl Shared {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn replied(&mut self, Open { client, begun, envelope }: Open, reply: Reply) {
        if let Ok(Done::Inode(made)) = reply
            && !self.shown.contains(&(made.ino, made.kind))
        {
            self.shown.push((made.ino, made.kind));
        }
        let ended = self.tick();
        self.entries.push(Entry { client, command: envelope.command, begun, ended, reply });
    }
}

impl History {
    pub fn text(&self) -> String {
        self.entries.iter().map(Entry::text).collect::<Vec<String>>().join("\n")
    }

    /// Runs so many commands of each client with faults, then those that have no reply without.
    pub async fn run(&mut self, world: &World, faults: Faults, commands: usize) {
        if self.shown.is_empty() {
            self.shown.push((Ino::ROOT, Kind::Directory));
        }
        world.set_faults(faults);
        let clients = world.clients();
        self.sequences.resize(clients as usize, 0);
        let shown = std::mem::take(&mut self.shown);
        let shared = Mutex::new(Shared { clock: 0, shown, entries: Vec::new(), open: Vec::new() });
        let client = |client: u64, mut sequence: u64| {
            let shared = &shared;
            async move {
                for _ in 0..commands {
                    sequence += 1;
                    let command = random_command(world, &shared.lock().shown);
                    let envelope = Envelope { answered_below: sequence, ..envelope(session(client), sequence, command) };
                    let open = Open { client, begun: shared.lock().tick(), envelope };
                    match send(world, &open.envelope).await {
                        Some(reply) => shared.lock().replied(open, reply),
                        None => {
                            shared.lock().open.push(open);
                            break;
                        }
                    }
                }
                sequence
            }
        };
        let all = join_all((0..clients).map(|number| client(number, self.sequences[number as usize])));
        let beside = pin!(async {
            loop {
                world.go_on().await;
                tokio::task::yield_now().await;
            }
        });
        let Either::Left((sequences, _)) = select(pin!(all), beside).await;
        self.sequences = sequences;
        world.settle_all().await;
        let open = std::mem::take(&mut shared.lock().open);
        for open in open {
            let reply = send(world, &open.envelope).await.expect("nothing is in its way any more");
            shared.lock().replied(open, reply);
            world.settle_all().await;
        }
        let Shared { shown, entries, .. } = shared.into_inner();
        (self.shown, self.entries) = (shown, entries);
    }
}

async fn send(world: &World, envelope: &Envelope) -> Option<Reply> {
    for attempt in 0..TRIES {
        if let Some(reply) = world.leader(tree_of(&envelope.command)).attempt(envelope).await {
            return Some(reply);
        }
        world.wait(4 << attempt.min(5)).await;
    }
    None
}

fn tree_of(command: &Command) -> TreeIndex {
    match command {
        Command::Make { parent, .. } | Command::Link { parent, .. } => parent.tree(),
        Command::Unlink { parent, .. } | Command::Rmdir { parent, .. } => parent.tree(),
        Command::Rename { from, .. } => from.0.tree(),
        _ => panic!("no command of names"),
    }
}

fn new(kind: Kind) -> NewInode {
    NewInode { kind, mode: 0o644, uid: 1, gid: 2, rdev: 0, target: Vec::new(), xattrs: Vec::new() }
}

/// A random command on names that there may be. Of directories mostly the last ones, so that trees grow deep.
fn random_command(world: &World, shown: &[(Ino, Kind)]) -> Command {
    let directories: Vec<Ino> = shown.iter().filter(|(_, kind)| *kind == Kind::Directory).map(|(ino, _)| *ino).collect();
    let directory = || {
        let last = directories.len() as u64;
        directories[(if world.below(3) == 0 { world.below(last) } else { last - 1 - world.below(last.min(5)) }) as usize]
    };
    let name = || NAMES[world.below(4) as usize].as_bytes().to_vec();
    let how = [RenameHow::Replace, RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
    match world.below(12) {
        0..4 => Command::Make { parent: directory(), name: name(), new: new(Kind::Directory) },
        4 => Command::Make { parent: directory(), name: name(), new: new(Kind::File) },
        5 => Command::Link { ino: shown[world.below(shown.len() as u64) as usize].0, parent: directory(), name: name() },
        6 => Command::Unlink { parent: directory(), name: name() },
        7 => Command::Rmdir { parent: directory(), name: name() },
        _ => {
            let how = how[world.below(4) as usize];
            Command::Rename { from: (directory(), name()), to: (directory(), name()), how }
        }
    }
}
