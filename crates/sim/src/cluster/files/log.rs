//! Logs: files to which clients append records. Each says which append it is of.

use std::collections::{BTreeMap, BTreeSet};

/// Names an append of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId(pub u32);

/// Its number and its length come first.
const HEADER_BYTES: usize = 8;
/// Shortest and longest record.
const RECORD_BYTES: std::ops::Range<usize> = HEADER_BYTES..3_000;

/// How long a record is, by a draw.
pub fn record_bytes(drawn: u64) -> usize {
    let most = if drawn.is_multiple_of(4) { RECORD_BYTES.end } else { 200 };
    RECORD_BYTES.start + drawn as usize % (most - RECORD_BYTES.start)
}

fn byte(id: RecordId, at: usize) -> u8 {
    (id.0.wrapping_mul(0x9e37_79b1) >> 7) as u8 ^ at as u8
}

pub fn record(id: RecordId, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&id.0.to_le_bytes());
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    bytes.extend((HEADER_BYTES..len).map(|at| byte(id, at)));
    bytes
}

/// The records of a log; an error for bytes that are no whole records.
pub fn parse(bytes: &[u8]) -> Result<Vec<RecordId>, String> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some((header, _)) = rest.split_at_checked(HEADER_BYTES) else {
            return Err(format!("it ends within a record at {at}"));
        };
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap_or_default());
        let (id, len) = (RecordId(number(0)), number(4) as usize);
        if !(RECORD_BYTES.start..=RECORD_BYTES.end).contains(&len) || rest.get(..len) != Some(&record(id, len)) {
            return Err(format!("there is no whole record at {at}, behind {:?}", records.last()));
        }
        records.push(id);
        at += len;
    }
    Ok(records)
}

/// What is known of an append.
#[derive(Clone, Copy, Debug)]
struct Append {
    called_at: u64,
    acknowledged_at: Option<u64>,
    /// What it has not done by then it never does.
    lost_at: Option<u64>,
}

/// The history of a log.
#[derive(Debug, Default)]
pub struct Log {
    appends: BTreeMap<RecordId, Append>,
    /// The longest content that was read, and when each of its records was first seen.
    content: Vec<(RecordId, u64)>,
    /// It was read when nothing was under way any more.
    was_read_calm: bool,
}

impl Log {
    pub fn call(&mut self, now: u64) -> RecordId {
        let id = RecordId(self.appends.len() as u32);
        self.appends.insert(id, Append { called_at: now, acknowledged_at: None, lost_at: None });
        id
    }

    pub fn acknowledge(&mut self, id: RecordId, now: u64) {
        if let Some(append) = self.appends.get_mut(&id) {
            append.acknowledged_at = Some(now);
        }
    }

    /// Nothing is under way any more.
    pub fn lose(&mut self, now: u64) {
        for append in self.appends.values_mut().filter(|append| append.acknowledged_at.is_none()) {
            append.lost_at.get_or_insert(now);
        }
    }

    pub fn len(&self) -> usize {
        self.appends.len()
    }

    /// A read, which was called at some time and ends now.
    pub fn read(&mut self, records: &[RecordId], called_at: u64, now: u64) -> Result<(), String> {
        let common = records.len().min(self.content.len());
        if let Some(at) = (0..common).find(|at| records[*at] != self.content[*at].0) {
            return Err(format!("record {at} was {:?}, and is {:?}", self.content[at].0, records[at]));
        }
        if let Some((id, _)) = self.content[common..].iter().find(|(_, seen_at)| *seen_at < called_at) {
            return Err(format!("{id:?} was read, and is not there any more"));
        }
        for id in &records[common..] {
            self.add(*id, now)?;
        }
        self.was_read_calm |= self.appends.values().any(|append| append.lost_at.is_some_and(|at| at < called_at));
        let there: BTreeSet<&RecordId> = records.iter().collect();
        let is_lacking = |(id, append): &(&RecordId, &Append)| {
            append.acknowledged_at.is_some_and(|at| at < called_at) && !there.contains(id)
        };
        match self.appends.iter().find(is_lacking) {
            Some((id, append)) => Err(format!("{id:?} is not there: {append:?}, read since {called_at}")),
            None => Ok(()),
        }
    }

    fn add(&mut self, id: RecordId, now: u64) -> Result<(), String> {
        let Some(append) = self.appends.get(&id) else { return Err(format!("{id:?} was never appended")) };
        if self.content.iter().any(|(other, _)| *other == id) {
            return Err(format!("{id:?} is there twice"));
        }
        if append.lost_at.is_some() && self.was_read_calm {
            return Err(format!("{id:?} was not there when nothing was under way any more, and is there now"));
        }
        for (other, _) in &self.content {
            let before = self.appends.get(other);
            let is_later = |before: &Append| append.acknowledged_at.is_some_and(|at| at < before.called_at);
            if before.is_some_and(is_later) {
                return Err(format!("{id:?} is behind {other:?}, which was called when it was acknowledged"));
            }
        }
        self.content.push((id, now));
        Ok(())
    }
}
