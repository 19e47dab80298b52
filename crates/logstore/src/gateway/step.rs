//! One step of a shard's machine and what it asks for.

use super::keys::{Keys, Op};
use crate::index::Located;
use crate::machine::{Message, Output, Outputs};
use crate::peers::Item;
use crate::store::Inner;
use format::entry::Entry;
use format::name_entry::NameEntry;
use std::sync::Arc;
use types::{KeyHash, ViewNumber};

impl Inner {
    /// Runs a step on the shard of a key. `heard` is what a message told about the entry that it brings.
    pub(crate) fn step<T>(
        self: &Arc<Self>,
        hash: &KeyHash,
        heard: Option<&NameEntry>,
        act: impl FnOnce(&mut Keys, &mut Outputs<Op>) -> T,
    ) -> T {
        self.step_on(self.shard(hash), heard, act)
    }

    /// The same on a shard.
    pub(super) fn step_on<T>(
        self: &Arc<Self>,
        shard: &parking_lot::Mutex<Keys>,
        heard: Option<&NameEntry>,
        act: impl FnOnce(&mut Keys, &mut Outputs<Op>) -> T,
    ) -> T {
        let mut out = Outputs::new();
        let (result, view) = {
            let mut keys = shard.lock();
            let result = act(&mut keys, &mut out);
            self.note(&mut keys, heard, &out);
            (result, keys.view())
        };
        self.perform(out, view);
        result
    }

    /// What must not come apart from the step: names enter the lists together with entries, so that a read and a list agree; items
    /// enter the streams in the order in which the machine put them out.
    fn note(&self, keys: &mut Keys, heard: Option<&NameEntry>, out: &Outputs<Op>) {
        let mut own: Option<NameEntry> = None;
        for output in out {
            match output {
                Output::Acknowledge { op: Op::Write(op), entry, .. } => {
                    let name = op.name_entry(entry);
                    if self.member.is_some() {
                        own = Some(name.clone());
                    }
                    self.enter(entry, name);
                }
                Output::PublishOwn { op: Op::Write(op), entry, .. } => self.enter(entry, op.name_entry(entry)),
                Output::Spread { op: Op::Write(op), entry, to, view } => {
                    let message = Message::Publish { entry: *entry, view: *view };
                    if let Some(member) = &self.member {
                        member.push(*to, &Item::Key { message, name: Some(Box::new(op.name_entry(entry))) });
                    }
                }
                Output::Published { entry, .. } => {
                    self.enter(entry, told_name(keys, heard, entry));
                    self.take_early_moves(keys, &entry.hash);
                }
                Output::Moved { entry, .. } => {
                    self.forget_moves_of(&entry.hash);
                    self.names.insert(entry.epoch, told_name(keys, heard, entry));
                }
                // The answer to the batch says so.
                Output::Send { message, .. } if message.is_confirmation() => {}
                Output::Send { to, message } => {
                    if let Message::Carry { .. } = message {
                        env::mark("gateway: a freeze carried into a new view");
                        self.stats.carried_freezes.add(1);
                    }
                    let told = own.as_ref().or(heard);
                    let name = match message {
                        Message::Conclude { entry: Some(entry), .. } | Message::Recovered { entry } => {
                            told.filter(|name| name.entry == *entry).cloned().map(Box::new)
                        }
                        _ => None,
                    };
                    if let Some(member) = &self.member {
                        member.push(*to, &Item::Key { message: message.clone(), name });
                    }
                }
                _ => {}
            }
        }
    }

    /// A name enters the lists.
    fn enter(&self, entry: &Entry, name: NameEntry) {
        self.note_open_upload(&name);
        self.names.insert(entry.epoch, name);
    }

    /// Does what the machine asked for, without its lock.
    pub(crate) fn perform(self: &Arc<Self>, out: Outputs<Op>, view: ViewNumber) {
        for output in out {
            match output {
                Output::Dispatch { op: Op::Write(op), write, newest } => {
                    op.dispatched(write, newest);
                }
                Output::Acknowledge { op: Op::Write(op), entry, replaced } => {
                    self.account(&entry, replaced.as_ref());
                    op.acknowledged(&entry);
                }
                Output::PublishOwn { entry, replaced, .. } => self.account(&entry, replaced.as_ref()),
                Output::AcknowledgeOwn { op: Op::Write(op), entry, .. } => op.acknowledged(&entry),
                Output::Answer { op: Op::Read(op), newest, view } => op.answer(newest, view),
                Output::Published { entry, replaced } => self.account_published(&entry, replaced.as_ref()),
                Output::Moved { entry, from } => {
                    self.targets.remove_live_entry(&from);
                    self.targets.add_live_entry(&Located::from(&entry));
                }
                Output::RecoveredHeld => self.shard_holds_recovered(view),
                Output::Send { .. } | Output::Spread { .. } => {}
                Output::Dispatch { .. }
                | Output::Acknowledge { .. }
                | Output::AcknowledgeOwn { .. }
                | Output::Answer { .. } => {
                    unreachable!("turns are for writes, answers for reads")
                }
            }
        }
    }

    /// Notes what another gateway's write stored and what it made garbage.
    fn account_published(&self, entry: &Entry, replaced: Option<&Located>) {
        self.targets.add_live_entry(&Located::from(entry));
        if let Some(replaced) = replaced {
            self.targets.remove_live_entry(replaced);
            if replaced.large {
                self.background.release_chunks(entry.hash, *replaced);
            }
        }
        self.background.note_write(entry.frame_bytes as u64);
    }
}

/// What lists will say of an entry that another gateway has told of: it came with it, now or before.
fn told_name(keys: &mut Keys, heard: Option<&NameEntry>, entry: &Entry) -> NameEntry {
    let held = keys.held_names.remove(&entry.write);
    heard.filter(|name| name.entry == *entry).cloned().or(held).expect("an entry is told, and held, with its name")
}
