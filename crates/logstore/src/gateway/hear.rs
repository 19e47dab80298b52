//! Taking in what other gateways say.

use super::follow::Follow;
use super::member::Member;
use crate::machine::{CellMessage, Message};
use crate::peers::{self, Batch, Confirmed, Item, Taken, Unheard, WireError};
use crate::store::{Inner, LogStore};
use bytes::Bytes;
use format::name_entry::NameEntry;
use std::sync::{Arc, Weak};
use types::{GatewayId, ViewNumber};

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum HearError {
    #[error("a batch that can't be read: {0}")]
    Wire(#[from] WireError),
    #[error("for gateway {wanted}, this is {found}")]
    OtherGateway { wanted: GatewayId, found: GatewayId },
    #[error("this gateway is alone")]
    Alone,
    #[error("this gateway has left its cell")]
    Deposed,
    #[error("something before this batch is missing")]
    Gap,
    #[error("the sender has left the cell")]
    SenderLeft,
    #[error("streams from too many gateways")]
    TooMany,
}

impl LogStore {
    /// Takes in a batch of another gateway; what to answer. An error says that it was not taken: it is sent again.
    pub async fn hear(&self, bytes: &[u8]) -> Result<Bytes, HearError> {
        let member = self.inner.member.as_ref().ok_or(HearError::Alone)?;
        self.take_in(member, bytes).await?;
        // Read after the items were taken in, and it changes before the shards do: no shard was further then.
        let view = member.heard.lock().view;
        Ok(peers::answer(view))
    }

    async fn take_in(&self, member: &Member, bytes: &[u8]) -> Result<(), HearError> {
        let Batch { from, to, number, items } = Batch::decode(bytes)?;
        let me = self.inner.me;
        if to != me {
            return Err(HearError::OtherGateway { wanted: to, found: me });
        }
        if member.is_deposed() {
            return Err(HearError::Deposed);
        }
        let hearing = member.hearings.of(from).map_err(|unheard| match unheard {
            Unheard::HasLeft => HearError::SenderLeft,
            Unheard::TooMany => HearError::TooMany,
        })?;
        let taken = hearing.try_take(number);
        let mut items = items.into_iter();
        let mut waiting = None;
        if let Some(Taken::Take(_)) = &taken {
            // Most batches wait for nothing: no task for them.
            waiting = items.by_ref().find_map(|item| self.inner.take_in_at_once(member, from, item));
            if waiting.is_none() {
                return Ok(());
            }
        }
        let inner = self.inner.clone();
        // A batch that has begun is taken in to its end, whoever stops waiting.
        let taking = self.inner.env.spawn(async move {
            let taken = match taken {
                Some(taken) => taken,
                None => hearing.take(number).await,
            };
            match taken {
                Taken::Take(_turn) => {
                    for item in waiting.into_iter().chain(items) {
                        inner.take_in(from, item).await?;
                    }
                    Ok(())
                }
                Taken::Already => Ok(()),
                Taken::Gap => Err(HearError::Gap),
            }
        });
        taking.await.unwrap_or(Err(HearError::Deposed))
    }
}

/// What other gateways confirm, for a store that may be gone.
pub(super) struct ToldBy(pub Weak<Inner>);

impl Confirmed for ToldBy {
    fn confirmed(&self, by: GatewayId, confirmation: Message) {
        if let Some(inner) = self.0.upgrade() {
            inner.take_in_message(by, confirmation, None);
        }
    }
}

impl Inner {
    async fn take_in(self: &Arc<Self>, from: GatewayId, item: Item) -> Result<(), HearError> {
        let member = self.member.as_ref().ok_or(HearError::Alone)?;
        if let Some(view) = item.view() {
            self.wait_for_view(member, view).await?;
        }
        let Some(item) = self.take_in_at_once(member, from, item) else { return Ok(()) };
        match self.to_follow(member, from, item) {
            Some(follow) => self.follow(member, follow),
            None => Ok(()),
        }
    }

    /// What has to be followed up of an item; nothing if its sender has left the view. A view that is installed next has either the move among those
    /// that this gateway tells again, or passes it over: what a member heard of a leader that is gone, and told nobody of, the others would
    /// never hear.
    pub(crate) fn to_follow(&self, member: &Member, from: GatewayId, item: Item) -> Option<Follow> {
        let _no_installation = member.changing.lock();
        if member.hearings.has_left(from) {
            env::mark("gateway: what a gateway that has left told of places passed over");
            return None;
        }
        Some(match item {
            Item::Installed { manifest } => Follow::Installed(manifest),
            Item::Relocated { old, name } => {
                self.note_move(&old, &name);
                Follow::Relocated { old, name: Box::new(name), is_fresh: member.is_fresh_from_leader(from) }
            }
            Item::Retire { question } => Follow::Retire { from, question },
            other => unreachable!("its view is installed, and nobody follows it up: {other:?}"),
        })
    }

    /// Takes an item in, or gives back one that has to wait: for its view, or behind others that are followed up.
    fn take_in_at_once(self: &Arc<Self>, member: &Member, from: GatewayId, item: Item) -> Option<Item> {
        if member.hearings.has_left(from) {
            return None;
        }
        if let Some(view) = item.view() {
            let present = member.view().number();
            if view > present {
                return Some(item);
            }
            // That a member has begun an epoch stays true, and is not said again.
            let is_kept = matches!(item, Item::Key { .. } | Item::All(_) | Item::EpochBegun { .. });
            if view < present && !is_kept {
                return None;
            }
        }
        match item {
            Item::Key { message, name } => self.take_in_message(from, message, name.map(|name| *name)),
            Item::All(message) => self.take_in_cell_message(member, from, message),
            Item::Hello { view, epoch, installed } => {
                let mut heard = member.heard.lock();
                if heard.view == view {
                    heard.hello.insert(from, (epoch, installed));
                }
                drop(heard);
                member.moved();
            }
            Item::Unsaved { names } => {
                let mut heard = member.heard.lock();
                if heard.joining {
                    heard.unsaved.extend(names);
                }
            }
            Item::Ask { question } => self.answer(member, from, question),
            Item::Release { question, whose } => self.release(member, from, question, whose),
            Item::Answer { question } | Item::Retired { question } | Item::Released { question } => {
                member.questions.answered(from, question);
            }
            Item::BeginEpoch { view, epoch } => {
                // Not here: the writes that it waits for may need what comes behind it.
                let inner = self.clone();
                self.env.spawn(async move { inner.begin_epoch(view, epoch).await });
            }
            Item::EpochBegun { epoch, staged, heard, .. } => member.note_begun(from, epoch, staged, heard),
            Item::Damaged { copies } => self.hear_of_damaged(copies),
            Item::UploadEnding { name, tombstone } => self.hear_of_ending(name, *tombstone),
            item @ (Item::Installed { .. } | Item::Relocated { .. } | Item::Retire { .. }) => return Some(item),
        }
        None
    }

    async fn wait_for_view(&self, member: &Member, view: ViewNumber) -> Result<(), HearError> {
        member.progress.wait_for(|_| member.view().number() >= view || member.is_deposed()).await;
        if member.is_deposed() { Err(HearError::Deposed) } else { Ok(()) }
    }

    fn take_in_message(self: &Arc<Self>, from: GatewayId, message: Message, name: Option<NameEntry>) {
        let hash = *message.hash();
        self.step(&hash, name.as_ref(), |keys, out| {
            // Under the shard's lock: the view may have come meanwhile.
            if self.member.as_ref().is_some_and(|member| member.hearings.has_left(from)) {
                return;
            }
            let recovered = match &message {
                Message::Recovered { entry } => Some(*entry),
                _ => None,
            };
            keys.receive(from, message, out);
            // With the entry, or lists would say other places than the index.
            if let (Some(entry), Some(name)) = (recovered, &name)
                && keys.holds(&entry)
            {
                keys.held_names.insert(entry.write, name.clone());
            }
        });
    }

    pub(super) fn take_in_cell_message(self: &Arc<Self>, member: &Member, from: GatewayId, message: CellMessage) {
        // Not while a view is being installed: some shards would have it and others not.
        let _one_at_a_time = member.changing.lock();
        for shard in &self.shards {
            self.step_on(shard, None, |keys, out| keys.receive_for_all(from, &message, out));
        }
        self.note_cell_message(member, from, &message);
    }

    /// What the shell itself keeps of a message about all keys.
    fn note_cell_message(&self, member: &Member, from: GatewayId, message: &CellMessage) {
        let mut heard = member.heard.lock();
        if message.view().is_some_and(|view| view != heard.view) {
            return;
        }
        match message {
            CellMessage::Carried { .. } => drop(heard.carried.insert(from)),
            CellMessage::RecoveredHeld { .. } => drop(heard.holding.insert(from)),
            CellMessage::AllRecovered { .. } => {}
            CellMessage::Decided { gateways } => {
                heard.undecided.retain(|gateway| !gateways.contains(gateway));
                heard.decided.extend(gateways);
                drop(heard);
                self.forget_held_names(gateways);
            }
        }
        member.moved();
    }

    fn forget_held_names(&self, gateways: &[GatewayId]) {
        for shard in &self.shards {
            shard.lock().held_names.retain(|write, _| !gateways.contains(&write.gateway));
        }
    }
}
