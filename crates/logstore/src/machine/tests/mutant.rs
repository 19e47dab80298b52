//! Machines that are wrong on purpose: each breaks one rule of the protocol, by what its gateways do with messages, and must be found out.

use super::super::{FreezeId, Message, Shard};
use super::world::{OpId, gateway_id};

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A write is acknowledged and published although members have not heard of it (against decision 4).
    AcknowledgesUnheard,
    /// A question is answered although members have not heard of the write that is under way (against paper section 3.2, step (a)).
    AnswersUnheard,
    /// A gateway acknowledges announcements and forgets them: its reads never ask.
    ForgetsAnnouncements,
    /// The end of an ordinary write releases the writer's next freeze.
    ReleasesOnOrdinaryConclude,
    /// A member says that it has stopped while its own write is under way.
    StopsWithoutDraining,
    /// Gateways freeze a key without its home, so that members hear of two freezes in different orders.
    FreezesWithoutHome,
    /// A member never looks at freezes; it only says that it has stopped.
    IgnoresFreezes,
    /// What arrives last wins, whatever its order.
    LastArrivalWins,
    /// A read-after-write gateway acknowledges a write that members have not published.
    AcknowledgesUnpublished,
    /// Streams hand over batches as they arrive and drop what comes too late.
    UnorderedStreams,
}

impl Mutant {
    pub const ALL: [Mutant; 9] = [
        Mutant::AcknowledgesUnheard,
        Mutant::AnswersUnheard,
        Mutant::ForgetsAnnouncements,
        Mutant::ReleasesOnOrdinaryConclude,
        Mutant::StopsWithoutDraining,
        Mutant::FreezesWithoutHome,
        Mutant::IgnoresFreezes,
        Mutant::LastArrivalWins,
        Mutant::UnorderedStreams,
    ];
}

/// A message that nobody honest sent.
pub struct Forged {
    pub from: usize,
    pub to: usize,
    pub message: Message,
    /// Handed to the machine now, not put on the stream.
    pub at_once: bool,
}

impl Mutant {
    /// What the wrong gateway `from` does beside sending `message`.
    pub fn on_send(self, from: usize, to: usize, message: &Message, forged: &mut Vec<Forged>) {
        if let (Mutant::AcknowledgesUnpublished, Message::Publish { entry, view }) = (self, message) {
            let message = Message::HavePublished { hash: entry.hash, write: entry.write, view: *view };
            forged.push(Forged { from: to, to: from, message, at_once: true });
        }
        if let (Mutant::AcknowledgesUnheard, Message::Announce { hash, write, view }) = (self, message) {
            let message = Message::Announced { hash: *hash, write: *write, view: *view };
            forged.push(Forged { from: to, to: from, message, at_once: true });
        }
    }

    /// What the wrong gateway `to` makes of an arriving message; nothing if it keeps it from the machine.
    pub fn on_arrival(
        self,
        shard: &Shard<OpId>,
        from: usize,
        to: usize,
        message: Message,
        forged: &mut Vec<Forged>,
    ) -> Option<Message> {
        let mut reply = |message| forged.push(Forged { from: to, to: from, message, at_once: false });
        match (self, message) {
            (Mutant::AnswersUnheard, Message::Ask { hash, read }) => {
                reply(Message::Told { hash, read, newest: shard.index().newest(&hash) });
                None
            }
            (Mutant::ForgetsAnnouncements, Message::Announce { hash, write, view }) => {
                reply(Message::Announced { hash, write, view });
                None
            }
            (Mutant::ReleasesOnOrdinaryConclude, Message::Conclude { hash, write, entry, freeze: None }) => {
                let held = shard.keys.get(&hash).and_then(|state| state.peers.as_ref());
                let held = held.and_then(|peers| peers.frozen.iter().find(|frozen| frozen.holder == gateway_id(from)));
                let freeze: Option<FreezeId> = held.map(|frozen| frozen.freeze);
                Some(Message::Conclude { hash, write, entry, freeze })
            }
            (Mutant::StopsWithoutDraining, Message::Freeze { hash, holder, freeze, view }) => {
                let message = Message::Frozen { hash, freeze, newest: shard.index().newest(&hash), view };
                forged.push(Forged { from: to, to: holder.0 as usize, message, at_once: false });
                Some(Message::Freeze { hash, holder, freeze, view })
            }
            (Mutant::IgnoresFreezes, Message::Freeze { hash, holder, freeze, view }) => {
                let message = Message::Frozen { hash, freeze, newest: shard.index().newest(&hash), view };
                forged.push(Forged { from: to, to: holder.0 as usize, message, at_once: false });
                None
            }
            (Mutant::FreezesWithoutHome, Message::FreezeAsk { hash, freeze, view }) => {
                for member in 0..shard.cell.others().len() + 1 {
                    let message = Message::Freeze { hash, holder: gateway_id(from), freeze, view };
                    // The holder tells itself at once.
                    forged.push(Forged { from, to: member, message, at_once: member == to || member == from });
                }
                None
            }
            (Mutant::LastArrivalWins, Message::Conclude { hash, write, entry: Some(mut entry), freeze }) => {
                // An order above everything that this gateway knows.
                let known = shard.index().newest(&hash).map_or(entry.order, |known| known.order);
                entry.order = entry.order.max(known);
                entry.order.activation.0 += 1;
                Some(Message::Conclude { hash, write, entry: Some(entry), freeze })
            }
            (_, message) => Some(message),
        }
    }
}
