//! Batches of items as bytes.
//!
//! ```text
//! 0         2       4        12      16
//! ├─ from ──┼─ to ──┼ number ┼ count ┼─ item ─┼─ item ─┼─ …      item: kind (1 byte), then what the kind has
//! ```
//!
//! Little endian; entries and names stand as `format` writes them. A place in an index travels as an entry whose write, epoch and length
//! are zero. Bytes come from a peer, so none are trusted: what does not decode ends the batch with an error.

use super::item::{Item, Staged};
use crate::gateway::OWNERS_PER_QUESTION;
use crate::heal::Damaged;
use crate::index::Located;
use crate::machine::{CellMessage, FreezeId, Message, ReadId};
use bytes::Bytes;
use format::attributes::Attributes;
use format::decode::{DecodeError, Fault, Reader};
use format::entry::Entry;
use format::name_entry::NameEntry;
use format::record::{EntryName, Space, WriteId, split_compound};
use types::{
    BucketId, DeviceId, Epoch, GatewayId, KEY_HASH_BYTES, KeyHash, Place, Sequence, UploadId, ViewNumber, ZoneIndex, ZoneOffset,
};

/// Bytes before the items.
pub(crate) const HEAD_BYTES: usize = 16;
/// A row has at least this many bytes: bounds what a count may claim.
const MIN_ROW_BYTES: usize = 100;

/// A damaged copy has at least this many: its place, and that no owner is known.
const DAMAGED_BYTES: usize = 13;

/// Stands for the checkpoint of a gateway that joins.
const NONE_INSTALLED: Epoch = Epoch(u64::MAX);

/// A batch that can't be read.
pub type WireError = DecodeError;

/// Items that travel together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub from: GatewayId,
    pub to: GatewayId,
    /// From 1, on the stream of these two gateways.
    pub number: u64,
    pub(crate) items: Vec<Item>,
}

/// The head of a batch, for items that are encoded already.
pub(crate) fn head(from: GatewayId, to: GatewayId, number: u64, count: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..2].copy_from_slice(&from.0.to_le_bytes());
    head[2..4].copy_from_slice(&to.0.to_le_bytes());
    head[4..12].copy_from_slice(&number.to_le_bytes());
    head[12..].copy_from_slice(&count.to_le_bytes());
    head
}

impl Batch {
    /// Reads a batch.
    pub fn decode(bytes: &[u8]) -> Result<Batch, WireError> {
        let mut reader = Reader::new("batch", bytes);
        let from = GatewayId(reader.u16("from")?);
        let to = GatewayId(reader.u16("to")?);
        let number = reader.u64("number")?;
        let count = reader.u32("count")? as usize;
        reader.check_count(12, count, 1, "count")?;
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(decode_item(&mut reader)?);
        }
        reader.finish()?;
        Ok(Batch { from, to, number, items })
    }

    /// The batch as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = head(self.from, self.to, self.number, self.items.len() as u32).to_vec();
        self.items.iter().for_each(|item| encode_item(item, &mut out));
        out
    }
}

/// The answer to a batch that was taken in: the receiver's view then.
pub(crate) fn answer(view: ViewNumber) -> Bytes {
    Bytes::copy_from_slice(&view.0.to_le_bytes())
}

/// Reads an answer.
pub(crate) fn decode_answer(bytes: &[u8]) -> Result<ViewNumber, WireError> {
    view(&mut Reader::new("answer to a batch", bytes))
}

mod kind {
    pub const ANNOUNCE: u8 = 1;
    pub const CONCLUDE: u8 = 2;
    pub const ASK: u8 = 3;
    pub const TOLD: u8 = 4;
    pub const FREEZE_ASK: u8 = 5;
    pub const FREEZE: u8 = 6;
    pub const FROZEN: u8 = 7;
    pub const CARRY: u8 = 8;
    pub const RECOVERED: u8 = 9;
    pub const PUBLISH: u8 = 10;
    pub const CARRIED: u8 = 16;
    pub const ALL_RECOVERED: u8 = 17;
    pub const RECOVERED_HELD: u8 = 18;
    pub const DECIDED: u8 = 19;
    pub const HELLO: u8 = 32;
    pub const UNSAVED: u8 = 33;
    pub const QUESTION: u8 = 34;
    pub const ANSWER: u8 = 35;
    pub const BEGIN_EPOCH: u8 = 36;
    pub const EPOCH_BEGUN: u8 = 37;
    pub const INSTALLED: u8 = 38;
    pub const RELOCATED: u8 = 39;
    pub const RETIRE: u8 = 40;
    pub const RETIRED: u8 = 41;
    pub const DAMAGED: u8 = 42;
    pub const RELEASE: u8 = 43;
    pub const RELEASED: u8 = 44;
    pub const UPLOAD_ENDING: u8 = 45;
}

/// Appends an item.
pub(crate) fn encode_item(item: &Item, out: &mut Vec<u8>) {
    let mut put = Writer(out);
    match item {
        Item::Key { message, name } => encode_message(message, name.as_deref(), &mut put),
        Item::All(message) => encode_cell_message(message, &mut put),
        Item::Hello { view, epoch, installed } => {
            put.kind(kind::HELLO).u64(view.0).u64(epoch.0).u64(installed.unwrap_or(NONE_INSTALLED).0).end();
        }
        Item::Unsaved { names } => {
            put.kind(kind::UNSAVED).u32(names.len() as u32);
            names.iter().for_each(|name| name.encode_into(put.0));
        }
        Item::Ask { question } => put.kind(kind::QUESTION).u64(*question).end(),
        Item::Answer { question } => put.kind(kind::ANSWER).u64(*question).end(),
        Item::BeginEpoch { view, epoch } => put.kind(kind::BEGIN_EPOCH).u64(view.0).u64(epoch.0).end(),
        Item::EpochBegun { view, epoch, staged, heard } => {
            put.kind(kind::EPOCH_BEGUN).u64(view.0).u64(epoch.0).u64(staged.from.0).u64(staged.next.0).u64(heard.0).end();
        }
        Item::Installed { manifest } => put.kind(kind::INSTALLED).bytes(manifest).end(),
        Item::Relocated { old, name } => {
            put.kind(kind::RELOCATED);
            Entry { places: *old, ..name.entry }.encode_into(put.0);
            name.encode_into(put.0);
        }
        Item::Retire { question } => put.kind(kind::RETIRE).u64(*question).end(),
        Item::Retired { question } => put.kind(kind::RETIRED).u64(*question).end(),
        Item::Release { question, whose } => {
            put.kind(kind::RELEASE).u64(*question);
            match whose {
                None => put.u8(0).end(),
                Some(owners) => {
                    put.u8(1).u32(owners.len() as u32);
                    owners.iter().for_each(|owner| put.hash(owner).end());
                }
            }
        }
        Item::Released { question } => put.kind(kind::RELEASED).u64(*question).end(),
        Item::UploadEnding { name, tombstone } => {
            let (key, upload) = split_compound(Space::Upload, &name.name).expect("it is an upload's");
            put.kind(kind::UPLOAD_ENDING).u64(name.bucket.0);
            put.0.extend_from_slice(upload);
            put.bytes(&key).bytes(&tombstone.to_bytes()).end();
        }
        Item::Damaged { copies } => {
            put.kind(kind::DAMAGED).u32(copies.len() as u32);
            for Damaged { place, owner } in copies {
                put.u32(place.device.0).u32(place.zone.0).u32(place.offset.0);
                match owner {
                    Some(owner) => put.u8(1).hash(owner).end(),
                    None => put.u8(0).end(),
                }
            }
        }
    }
}

fn encode_message(message: &Message, name: Option<&NameEntry>, put: &mut Writer<'_>) {
    match message {
        Message::Announce { hash, write, view } => put.kind(kind::ANNOUNCE).hash(hash).write(write).u64(view.0).end(),
        Message::Conclude { hash, write, entry, freeze } => {
            put.kind(kind::CONCLUDE).hash(hash).write(write).option(freeze.map(|freeze| freeze.0));
            assert!(entry.is_some() == name.is_some(), "a published entry travels with its name");
            put.name(name);
        }
        Message::Ask { hash, read } => put.kind(kind::ASK).hash(hash).u64(read.0).end(),
        Message::Told { hash, read, newest } => put.kind(kind::TOLD).hash(hash).u64(read.0).located(hash, newest).end(),
        Message::FreezeAsk { hash, freeze, view } => put.kind(kind::FREEZE_ASK).hash(hash).u64(freeze.0).u64(view.0).end(),
        Message::Freeze { hash, holder, freeze, view } => {
            put.kind(kind::FREEZE).hash(hash).u16(holder.0).u64(freeze.0).u64(view.0).end();
        }
        Message::Frozen { hash, freeze, newest, view } => {
            put.kind(kind::FROZEN).hash(hash).u64(freeze.0).u64(view.0).located(hash, newest).end();
        }
        Message::Carry { hash, freeze, view } => put.kind(kind::CARRY).hash(hash).u64(freeze.0).u64(view.0).end(),
        Message::Publish { view, .. } => {
            put.kind(kind::PUBLISH).u64(view.0);
            name.expect("an entry travels with its name").encode_into(put.0);
        }
        Message::Announced { .. } | Message::HavePublished { .. } => unreachable!("confirmations travel on no stream"),
        Message::Recovered { .. } => {
            put.kind(kind::RECOVERED);
            name.expect("a recovered entry travels with its name").encode_into(put.0);
        }
    }
}

fn encode_cell_message(message: &CellMessage, put: &mut Writer<'_>) {
    match message {
        CellMessage::Carried { view } => put.kind(kind::CARRIED).u64(view.0).end(),
        CellMessage::AllRecovered { view } => put.kind(kind::ALL_RECOVERED).u64(view.0).end(),
        CellMessage::RecoveredHeld { view } => put.kind(kind::RECOVERED_HELD).u64(view.0).end(),
        CellMessage::Decided { gateways } => {
            put.kind(kind::DECIDED).u32(gateways.len() as u32);
            gateways.iter().for_each(|gateway| put.u16(gateway.0).end());
        }
    }
}

fn decode_item(reader: &mut Reader<'_>) -> Result<Item, WireError> {
    let at = reader.offset();
    let found = reader.u8("kind")?;
    Ok(match found {
        kind::ANNOUNCE..=kind::PUBLISH => decode_message(found, reader)?,
        kind::CARRIED => Item::All(CellMessage::Carried { view: view(reader)? }),
        kind::ALL_RECOVERED => Item::All(CellMessage::AllRecovered { view: view(reader)? }),
        kind::RECOVERED_HELD => Item::All(CellMessage::RecoveredHeld { view: view(reader)? }),
        kind::DECIDED => {
            let count = reader.u32("gateways")? as usize;
            reader.check_count(at + 1, count, 2, "gateways")?;
            let gateways = (0..count).map(|_| reader.u16("gateway").map(GatewayId)).collect::<Result<_, _>>()?;
            Item::All(CellMessage::Decided { gateways })
        }
        kind::HELLO => {
            let (view, epoch, installed) = (view(reader)?, epoch(reader)?, epoch(reader)?);
            Item::Hello { view, epoch, installed: Some(installed).filter(|installed| *installed != NONE_INSTALLED) }
        }
        kind::UNSAVED => {
            let count = reader.u32("names")? as usize;
            reader.check_count(at + 1, count, MIN_ROW_BYTES, "names")?;
            Item::Unsaved { names: (0..count).map(|_| NameEntry::read(reader)).collect::<Result<_, _>>()? }
        }
        kind::QUESTION => Item::Ask { question: reader.u64("question")? },
        kind::ANSWER => Item::Answer { question: reader.u64("question")? },
        kind::BEGIN_EPOCH => Item::BeginEpoch { view: view(reader)?, epoch: epoch(reader)? },
        kind::EPOCH_BEGUN => {
            let (view, epoch) = (view(reader)?, epoch(reader)?);
            let staged = Staged { from: Sequence(reader.u64("staged from")?), next: Sequence(reader.u64("next")?) };
            Item::EpochBegun { view, epoch, staged, heard: Epoch(reader.u64("heard")?) }
        }
        kind::INSTALLED => {
            let bytes = reader.u32("manifest")? as usize;
            Item::Installed { manifest: reader.take(bytes, "manifest")?.to_vec() }
        }
        kind::RELOCATED => Item::Relocated { old: Entry::read(reader)?.places, name: NameEntry::read(reader)? },
        kind::RETIRE => Item::Retire { question: reader.u64("question")? },
        kind::RETIRED => Item::Retired { question: reader.u64("question")? },
        kind::RELEASE => Item::Release { question: reader.u64("question")?, whose: owners(reader)? },
        kind::RELEASED => Item::Released { question: reader.u64("question")? },
        kind::UPLOAD_ENDING => {
            let (bucket, upload) = (BucketId(reader.u64("bucket")?), UploadId(reader.array("upload")?));
            let bytes = reader.u32("key")? as usize;
            let name = EntryName::upload(bucket, reader.take(bytes, "key")?, upload);
            let bytes = reader.u32("tombstone")? as usize;
            let tombstone = Attributes::decode(reader.take(bytes, "tombstone")?.to_vec().into())?;
            Item::UploadEnding { name, tombstone: Box::new(tombstone) }
        }
        kind::DAMAGED => {
            let count = reader.u32("copies")? as usize;
            reader.check_count(at + 1, count, DAMAGED_BYTES, "copies")?;
            Item::Damaged { copies: (0..count).map(|_| damaged(reader)).collect::<Result<_, _>>()? }
        }
        found => return Err(reader.error_at(at, "kind", Fault::Unknown { found: u64::from(found) })),
    })
}

fn decode_message(found: u8, reader: &mut Reader<'_>) -> Result<Item, WireError> {
    if found == kind::RECOVERED {
        let name = NameEntry::read(reader)?;
        return Ok(Item::Key { message: Message::Recovered { entry: name.entry }, name: Some(Box::new(name)) });
    }
    if found == kind::PUBLISH {
        let view = view(reader)?;
        let name = NameEntry::read(reader)?;
        return Ok(Item::Key { message: Message::Publish { entry: name.entry, view }, name: Some(Box::new(name)) });
    }
    let hash = KeyHash::from_bytes(reader.array::<KEY_HASH_BYTES>("hash")?);
    let mut told = None;
    let message = match found {
        kind::ANNOUNCE => Message::Announce { hash, write: write(reader)?, view: view(reader)? },
        kind::CONCLUDE => {
            let write = write(reader)?;
            let freeze = option(reader)?.map(FreezeId);
            told = if flag(reader)? { Some(Box::new(NameEntry::read(reader)?)) } else { None };
            Message::Conclude { hash, write, entry: told.as_ref().map(|name| name.entry), freeze }
        }
        kind::ASK => Message::Ask { hash, read: ReadId(reader.u64("read")?) },
        kind::TOLD => Message::Told { hash, read: ReadId(reader.u64("read")?), newest: located(reader)? },
        kind::FREEZE_ASK => Message::FreezeAsk { hash, freeze: freeze(reader)?, view: view(reader)? },
        kind::FREEZE => {
            let holder = GatewayId(reader.u16("holder")?);
            Message::Freeze { hash, holder, freeze: freeze(reader)?, view: view(reader)? }
        }
        kind::FROZEN => {
            let (freeze, view) = (freeze(reader)?, view(reader)?);
            Message::Frozen { hash, freeze, newest: located(reader)?, view }
        }
        _ => Message::Carry { hash, freeze: freeze(reader)?, view: view(reader)? },
    };
    Ok(Item::Key { message, name: told })
}

fn view(reader: &mut Reader<'_>) -> Result<ViewNumber, WireError> {
    reader.u64("view").map(ViewNumber)
}

fn epoch(reader: &mut Reader<'_>) -> Result<Epoch, WireError> {
    reader.u64("epoch").map(Epoch)
}

fn freeze(reader: &mut Reader<'_>) -> Result<FreezeId, WireError> {
    reader.u64("freeze").map(FreezeId)
}

fn write(reader: &mut Reader<'_>) -> Result<WriteId, WireError> {
    Ok(WriteId { gateway: GatewayId(reader.u16("gateway")?), sequence: Sequence(reader.u64("sequence")?) })
}

fn damaged(reader: &mut Reader<'_>) -> Result<Damaged, WireError> {
    let device = DeviceId(reader.u32("device")?);
    let (zone, offset) = (ZoneIndex(reader.u32("zone")?), ZoneOffset(reader.u32("offset")?));
    let owner = if flag(reader)? { Some(KeyHash::from_bytes(reader.array::<KEY_HASH_BYTES>("owner")?)) } else { None };
    Ok(Damaged { place: Place { device, zone, offset }, owner })
}

fn owners(reader: &mut Reader<'_>) -> Result<Option<Vec<KeyHash>>, WireError> {
    if !flag(reader)? {
        return Ok(None);
    }
    let at = reader.offset();
    let count = reader.u32("owners")? as usize;
    reader.check_count(at, count, KEY_HASH_BYTES, "owners")?;
    if count > OWNERS_PER_QUESTION {
        let (most, found) = (OWNERS_PER_QUESTION as u64, count as u64);
        return Err(reader.error_at(at, "owners", Fault::OutOfRange { least: 0, most, found }));
    }
    (0..count).map(|_| reader.array::<KEY_HASH_BYTES>("owner").map(KeyHash::from_bytes)).collect::<Result<_, _>>().map(Some)
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    let at = reader.offset();
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(reader.error_at(at, "flag", Fault::Unknown { found: u64::from(found) })),
    }
}

fn option(reader: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    if flag(reader)? { reader.u64("value").map(Some) } else { Ok(None) }
}

fn located(reader: &mut Reader<'_>) -> Result<Option<Located>, WireError> {
    if flag(reader)? { Ok(Some(Located::from(&Entry::read(reader)?))) } else { Ok(None) }
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn kind(&mut self, kind: u8) -> &mut Self {
        self.0.push(kind);
        self
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn hash(&mut self, hash: &KeyHash) -> &mut Self {
        self.0.extend_from_slice(hash.as_bytes());
        self
    }

    fn write(&mut self, write: &WriteId) -> &mut Self {
        self.u16(write.gateway.0).u64(write.sequence.0)
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).0.extend_from_slice(bytes);
        self
    }

    fn option(&mut self, value: Option<u64>) -> &mut Self {
        self.0.push(value.is_some() as u8);
        if let Some(value) = value {
            self.u64(value);
        }
        self
    }

    fn name(&mut self, name: Option<&NameEntry>) {
        self.0.push(name.is_some() as u8);
        if let Some(name) = name {
            name.encode_into(self.0);
        }
    }

    fn located(&mut self, hash: &KeyHash, located: &Option<Located>) -> &mut Self {
        self.0.push(located.is_some() as u8);
        if let Some(located) = located {
            let Located { order, places, frame_bytes, state, large } = *located;
            let write = WriteId { gateway: GatewayId(0), sequence: Sequence(0) };
            Entry { hash: *hash, write, epoch: Epoch(0), order, places, frame_bytes, length: 0, state, large }
                .encode_into(self.0);
        }
        self
    }

    fn end(&self) {}
}

#[cfg(test)]
mod tests;
