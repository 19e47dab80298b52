//! Histories with one lie: what the checker must refuse.

use super::record::{By, Event, KeyRecord, Record, Value};
use model::register::{Call, Outcome};

/// Histories of single keys in which one read, made by `by`, is said to have found a value that had been overwritten, and the
/// overwriting acknowledged, before the read was asked for.
pub fn stale_reads(record: &Record, by: By) -> Vec<Record> {
    let mut lies = Vec::new();
    for key in (0..record.keys()).map(|key| record.key(key)) {
        let calls = calls(&key);
        for read in calls.iter().filter(|call| call.by == by && matches!(call.outcome, Some(Outcome::Read(_)))) {
            let Some(stale) = overwritten_before(&calls, read) else { continue };
            let mut lie = key.clone();
            lie.events[read.answered_at] = Event::Answered { number: read.number, outcome: Outcome::Read(Some(stale)) };
            lies.push(Record::of_key(lie));
        }
    }
    lies
}

/// A call, and where in the events it is.
struct Placed {
    number: usize,
    by: By,
    call: Call<Value>,
    outcome: Option<Outcome<Value>>,
    called_at: usize,
    /// Past the end if never.
    answered_at: usize,
}

impl Placed {
    /// What it certainly wrote.
    fn wrote(&self) -> Option<Option<Value>> {
        match (&self.call, &self.outcome) {
            (Call::Write(new), Some(Outcome::Written)) | (Call::Swap { new, .. }, Some(Outcome::Swapped)) => Some(*new),
            _ => None,
        }
    }

    /// What it may have written.
    fn may_write(&self, value: Value) -> bool {
        match &self.call {
            Call::Read => false,
            Call::Write(new) => *new == Some(value),
            Call::Swap { expected, new } => expected != new && *new == Some(value),
        }
    }
}

fn calls(key: &KeyRecord) -> Vec<Placed> {
    let mut calls: Vec<Placed> = Vec::new();
    for (at, event) in key.events.iter().enumerate() {
        match event {
            Event::Called { by, call } => {
                let (number, call) = (calls.len(), call.clone());
                calls.push(Placed { number, by: *by, call, outcome: None, called_at: at, answered_at: usize::MAX });
            }
            Event::Answered { number, outcome } => {
                calls[*number].outcome = Some(outcome.clone());
                calls[*number].answered_at = at;
            }
            Event::Withdrawn { .. } | Event::ServerEnded => {}
        }
    }
    calls
}

/// A value that was written once, by a write that ended before another write began that ended before `read` began.
fn overwritten_before(calls: &[Placed], read: &Placed) -> Option<Value> {
    let later = calls.iter().rev().find(|call| {
        let value = call.wrote();
        value.is_some() && call.by != By::Copy && call.by != By::Get && call.answered_at < read.called_at
    })?;
    let earlier =
        calls.iter().rev().filter(|call| call.answered_at < later.called_at).filter_map(|call| call.wrote().flatten());
    let mut once = earlier.filter(|value| calls.iter().filter(|call| call.may_write(*value)).count() == 1);
    once.find(|value| later.wrote() != Some(Some(*value)))
}
