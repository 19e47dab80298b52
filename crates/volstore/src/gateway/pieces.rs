//! Readers and staged content that a group's primary holds for a gateway.

use std::any::Any;
use std::ops::Range;

use ::engine::{ContentReader, EngineFuture, Staged};
use bytes::Bytes;
use format::part_table::PartTable;

use super::{Gateway, odd};
use crate::asking::{Answer, Ask};
use crate::content::PartMark;
use crate::name::Name;
use crate::place::Place;

/// Something that a primary holds. Dropped, it holds it no more.
struct Held {
    gateway: Gateway,
    group: u32,
    /// 0: nothing.
    number: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        let (gateway, group, held) = (self.gateway.clone(), self.group, self.number);
        let env = self.gateway.place.env().clone();
        // What is not dropped there now is given up later.
        drop(env.spawn(async move { drop(gateway.ask_group(group, Ask::Drop { held }).await) }));
    }
}

/// Reads a version by ranges.
pub struct RemoteReader {
    held: Held,
    parts: Option<PartTable>,
}

impl RemoteReader {
    pub fn new(gateway: Gateway, group: u32, number: u64, parts: Option<Vec<PartMark>>) -> RemoteReader {
        let parts = parts.map(|parts| crate::interface::part_table(&parts));
        RemoteReader { held: Held { gateway, group, number }, parts }
    }
}

impl ContentReader for RemoteReader {
    fn read(&self, range: Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(async move {
            let Held { gateway, group, number } = &self.held;
            match gateway.ask_group(*group, Ask::Read { held: *number, from: range.start, to: range.end }).await? {
                Answer::Bytes(bytes) if !bytes.is_empty() => Ok(bytes.into()),
                _ => Err(odd()),
            }
        })
    }

    fn parts(&self) -> Option<&PartTable> {
        self.parts.as_ref()
    }
}

/// Content that is staged at a primary.
pub struct RemoteStaged {
    name: Name,
    held: Held,
}

impl RemoteStaged {
    pub fn new(gateway: Gateway, name: Name) -> RemoteStaged {
        let group = Place::group_of(&name);
        RemoteStaged { name, held: Held { gateway, group, number: 0 } }
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Its number there; 0: nothing is staged yet.
    pub fn held(&self) -> u64 {
        self.held.number
    }

    pub fn hold(&mut self, number: u64) {
        self.held.number = number;
    }

    /// It is used there, and not dropped.
    pub fn take(&mut self) -> u64 {
        std::mem::take(&mut self.held.number)
    }
}

impl Staged for RemoteStaged {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
