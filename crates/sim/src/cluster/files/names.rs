//! Calls of names: in a few directories that all programs share.

use super::door::Mount;
use super::history::{Name, Number};
use super::tree::{NameCall, NameOutcome};
use super::user::{FileUser, Place, Volume};
use filesystem::client::{Client, ClientError, Entry, New, Owner};
use filesystem::ids::Ino;
use filesystem::meta::{Kind, MetaError, RenameHow};
use std::sync::Arc;

/// Names of each directory.
const NAMES: u64 = 5;
/// More entries than a directory has: a listing fits into one answer.
const LISTED: usize = 100;
/// Where the names of a directory begin: behind the dots.
const BEHIND_DOTS: u64 = 2;

pub fn name_of(name: Name) -> Vec<u8> {
    format!("name-{name}").into_bytes()
}

fn number_of(name: &[u8]) -> Option<Name> {
    std::str::from_utf8(name).ok()?.strip_prefix("name-")?.parse().ok()
}

/// An inode to be made, as most programs make them.
pub fn new(kind: Kind) -> New {
    New { kind, mode: 0o755, umask: 0, rdev: 0, owner: Owner { uid: 0, gid: 0 } }
}

/// The kernel keeps no reference.
async fn let_go(client: &Client, entry: Entry) -> NameOutcome {
    if let Some(orphan) = client.forget(entry.0.ino, 1) {
        client.tell_dropped(orphan);
    }
    NameOutcome::Found(entry.0.ino.0, entry.0.kind == Kind::Directory)
}

async fn carry_out(client: Arc<Client>, call: NameCall) -> Result<NameOutcome, ClientError> {
    let place = |(directory, name): (u64, Name)| (Ino(directory), name_of(name));
    let done = |()| NameOutcome::Done;
    match call {
        NameCall::Make { at, is_directory, .. } => {
            let ((parent, name), kind) = (place(at), if is_directory { Kind::Directory } else { Kind::File });
            Ok(let_go(&client, client.make(parent, &name, new(kind)).await?).await)
        }
        NameCall::Link { ino, at } => {
            let (parent, name) = place(at);
            Ok(let_go(&client, client.link(Ino(ino), parent, &name).await?).await)
        }
        NameCall::Unlink { at } => {
            let (parent, name) = place(at);
            client.unlink(parent, &name).await.map(done)
        }
        NameCall::Rmdir { at } => {
            let (parent, name) = place(at);
            client.rmdir(parent, &name).await.map(done)
        }
        NameCall::Rename { from, to, how } => {
            let ((from, old), (to, new)) = (place(from), place(to));
            client.rename((from, &old), (to, &new), how).await.map(done)
        }
        NameCall::Lookup { at } => {
            let (parent, name) = place(at);
            Ok(let_go(&client, client.lookup(parent, &name).await?).await)
        }
        NameCall::List { directory } => {
            let entries = client.readdir(Ino(directory), BEHIND_DOTS, LISTED).await?;
            let listed = entries.iter().map(|entry| {
                let name = number_of(&entry.name).unwrap_or(Name::MAX);
                (name, entry.ino.0, entry.kind == Kind::Directory)
            });
            let mut listed: Vec<(Name, u64, bool)> = listed.collect();
            listed.sort_unstable();
            Ok(NameOutcome::Listed(listed))
        }
    }
}

impl FileUser {
    fn any_name(&mut self, directories: &[u64]) -> (u64, Name) {
        // Those that are always there more often than others.
        let of = if self.draw.percent(60) { directories.len().min(2) } else { directories.len() };
        (directories[self.draw.below(of as u64) as usize], self.draw.below(NAMES) as Name)
    }

    pub async fn step_names(&mut self, place: &Place, volume: &Volume) -> bool {
        let yard = volume.yards[self.draw.below(volume.yards.len() as u64) as usize];
        let (directories, files) = self.histories.known(yard);
        let at = self.any_name(&directories);
        let call = match self.draw.below(100) {
            0..=17 => NameCall::Make { number: self.histories.next_value(), at, is_directory: false },
            18..=25 => NameCall::Make { number: self.histories.next_value(), at, is_directory: true },
            26..=33 if !files.is_empty() => {
                let ino = files[self.draw.below(files.len() as u64) as usize];
                NameCall::Link { ino, at }
            }
            34..=43 => NameCall::Unlink { at },
            44..=49 => NameCall::Rmdir { at },
            50..=71 => {
                let how = match self.draw.below(10) {
                    0..=5 => RenameHow::Replace,
                    6..=7 => RenameHow::NoReplace,
                    _ => RenameHow::Exchange,
                };
                NameCall::Rename { from: at, to: self.any_name(&directories), how }
            }
            72..=79 => NameCall::List { directory: at.0 },
            _ => NameCall::Lookup { at },
        };
        self.call_names(place, volume, yard, call).await.is_some()
    }

    /// What was answered.
    pub async fn call_names(&self, place: &Place, volume: &Volume, yard: Number, call: NameCall) -> Option<NameOutcome> {
        let open = self.histories.call_names(yard, call.clone());
        let work = |mount: Arc<Mount>| carry_out(mount.client.clone(), call.clone());
        let outcome = match self.ask(place, volume, work).await {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(error)) => self.refusal(&error).map(NameOutcome::Refused),
            None => None,
        };
        if matches!(outcome, Some(NameOutcome::Refused(MetaError::NameLength | MetaError::Quota))) {
            self.histories.violate(format!("{call:?} is refused: {outcome:?}"));
        }
        self.histories.end_names(open, outcome.clone());
        outcome
    }
}
