//! Requests that are not answered yet.

use crate::errno::Errno;
use crate::export::ExportError;
use crate::request::{Command, Cookie};

/// A place in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

/// The table. It grows to the most requests that were ever open at once.
#[derive(Debug, Default)]
pub struct OpenRequests {
    places: Vec<Option<OpenRequest>>,
    free: Vec<Slot>,
}

/// One request.
#[derive(Debug)]
pub struct OpenRequest {
    pub cookie: Cookie,
    pub command: Command,
    /// Operations under way.
    pub parts: usize,
    /// No further part will start.
    pub is_all_started: bool,
    /// The first part that failed.
    pub failure: Option<Failure>,
}

/// Why a request failed.
#[derive(Debug)]
pub struct Failure {
    pub error: Errno,
    pub why: std::borrow::Cow<'static, str>,
    /// Where the part begins.
    pub offset: u64,
}

impl OpenRequest {
    pub fn new(cookie: Cookie, command: Command) -> OpenRequest {
        OpenRequest { cookie, command, parts: 0, is_all_started: false, failure: None }
    }

    /// Whether nothing is left to be awaited.
    pub fn is_over(&self) -> bool {
        self.is_all_started && self.parts == 0
    }

    pub fn fail(&mut self, error: ExportError, offset: u64) {
        if self.failure.is_none() {
            self.failure = Some(Failure { error: error.kind.into(), why: error.message, offset });
        }
    }
}

impl OpenRequests {
    pub fn insert(&mut self, request: OpenRequest) -> Slot {
        if let Some(slot) = self.free.pop() {
            self.places[slot.0] = Some(request);
            return slot;
        }
        self.places.push(Some(request));
        Slot(self.places.len() - 1)
    }

    pub fn get(&mut self, slot: Slot) -> &mut OpenRequest {
        self.places[slot.0].as_mut().expect("a slot is used until its request is removed")
    }

    pub fn remove(&mut self, slot: Slot) -> OpenRequest {
        self.free.push(slot);
        self.places[slot.0].take().expect("a request is removed once")
    }
}
