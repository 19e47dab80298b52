//! The copies of other nodes, as a primary sees them.

use std::sync::Arc;
use std::time::Duration;

use env::Instant;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use super::ask::{Answer, Ask, Copy, CopyError, What};
use super::gate::{NotAdmitted, Pass};
use super::limits::SILENCE;
use super::record::{RecordChange, RecordRefusal};
use super::reign::{Over, Reign};
use super::standing::Role;
use crate::data::DataRoom;

/// A copy of another node.
pub struct Seat {
    pub node: NodeId,
    device: DeviceId,
    way: Arc<dyn Copy>,
    state: Mutex<SeatState>,
    /// It is entered by one at a time.
    entering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct SeatState {
    /// The last session that was begun.
    session: u64,
    /// None: it is not entered.
    boot: Option<u64>,
    room: Option<DataRoom>,
    /// Since when it gives no answers.
    silent_since: Option<Instant>,
}

/// What became of a copy that was to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It is out, or its rebuild has failed.
    Gone,
    /// It may not: too few would stay in sync.
    Stays,
}

impl Seat {
    /// The last session that has ended, or is about to: an enter that has seen it begins the next one, or waits for one that has begun.
    pub fn session(&self) -> u64 {
        let state = self.state.lock();
        if state.boot.is_some() { state.session } else { state.session.saturating_sub(1) }
    }

    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// As its last answer said.
    pub fn room(&self) -> Option<DataRoom> {
        self.state.lock().room
    }

    pub fn is_entered(&self) -> bool {
        self.state.lock().boot.is_some()
    }

    pub fn silent_since(&self) -> Option<Instant> {
        self.state.lock().silent_since
    }

    /// What it said, or that it said nothing.
    fn note(&self, answer: &Result<Answer, CopyError>, now: Instant) {
        let mut state = self.state.lock();
        match answer {
            Err(CopyError::Silent(_)) => _ = state.silent_since.get_or_insert(now),
            Ok(_) | Err(CopyError::Data(_) | CopyError::NotAdmitted(_)) => state.silent_since = None,
        }
        if let Ok(Answer::Done { room } | Answer::Entered { room, .. }) = answer {
            state.room = Some(*room);
        }
    }
}

impl Reign {
    /// The copy of a node; none if it has none.
    pub(super) fn seat(&self, node: NodeId) -> Option<Arc<Seat>> {
        let device = *self.standing.lock().record().copies.get(&node)?;
        let mut seats = self.seats.lock();
        if let Some(seat) = seats.get(&node).filter(|seat| seat.device == device) {
            return Some(seat.clone());
        }
        let way = self.realm.ways.copy(node, device);
        let seat = Arc::new(Seat { node, device, way, state: Mutex::default(), entering: tokio::sync::Mutex::default() });
        seats.insert(node, seat.clone());
        Some(seat)
    }

    pub(super) fn role(&self, node: NodeId) -> Role {
        self.standing.lock().role(node)
    }

    /// Asks a copy that is entered.
    pub(super) async fn ask(&self, seat: &Seat, what: What, limit: Duration) -> Result<Answer, CopyError> {
        self.ask_in(seat, seat.session(), what, limit).await
    }

    /// Asks a copy, if this session is the one in which it is entered. What was asked in it and not answered may come late, as long as it is not entered anew.
    pub(super) async fn ask_in(&self, seat: &Seat, session: u64, what: What, limit: Duration) -> Result<Answer, CopyError> {
        let boot = {
            let state = seat.state.lock();
            state.boot.filter(|_| state.session == session).ok_or(CopyError::NotAdmitted(NotAdmitted::NotEntered))?
        };
        self.ask_as(seat, session, boot, what, limit).await
    }

    async fn ask_as(&self, seat: &Seat, session: u64, boot: u64, what: What, limit: Duration) -> Result<Answer, CopyError> {
        let ask = Ask { pass: Pass { term: self.term, session }, boot, what };
        let answer = tokio::select! {
            answer = seat.way.ask(ask) => answer,
            () = self.env().sleep(limit) => Err(CopyError::Silent(format!("{} ms have passed", limit.as_millis()))),
        };
        seat.note(&answer, self.env().now());
        answer
    }

    /// Enters a copy with the next session, unless another has done so since `seen` was the last one. False where it does not let itself be entered.
    pub(super) async fn enter(&self, seat: &Seat, seen: u64) -> bool {
        let _turn = seat.entering.lock().await;
        let session = {
            let mut state = seat.state.lock();
            if state.session > seen && state.boot.is_some() {
                return true;
            }
            state.session += 1;
            state.boot = None;
            state.session
        };
        match self.ask_as(seat, session, 0, What::Enter, SILENCE).await {
            Ok(Answer::Entered { boot, .. }) => {
                seat.state.lock().boot = Some(boot);
                true
            }
            other => {
                tracing::debug!(node = %seat.node, ?other, "a copy was not entered");
                false
            }
        }
    }

    /// Has a copy leave the set, or ends its rebuild. Where too few would stay in sync it is entered again, after a pause.
    pub(super) async fn put_out(&self, node: NodeId) -> Result<Leaving, Over> {
        match self.role(node) {
            Role::Out => return Ok(Leaving::Gone),
            Role::Rebuilt => {
                // It may be joining just now.
                let has_failed = self.standing.lock().fail_rebuild(node);
                if has_failed {
                    return Ok(Leaving::Gone);
                }
                self.rest().await?;
                return Ok(Leaving::Stays);
            }
            Role::InSync => {}
        }
        // What can only be refused is not put through the log of all groups, nor before the command that has a third copy join.
        let may_leave = self.standing.lock().record().may_leave(node);
        if !may_leave || self.commit(RecordChange::Leave(node)).await? == Err(RecordRefusal::Few) {
            self.rest().await?;
            if let Some(seat) = self.seat(node) {
                self.enter(&seat, seat.session()).await;
            }
            return Ok(Leaving::Stays);
        }
        env::mark("files: a copy left");
        tracing::warn!(partition = self.realm.partition, %node, "a copy of files is not in sync any more");
        Ok(Leaving::Gone)
    }

    /// Until a copy is entered.
    pub(super) async fn knock(&self, node: NodeId) {
        while self.rest().await.is_ok() {
            if let Some(seat) = self.seat(node)
                && self.enter(&seat, seat.session()).await
            {
                return;
            }
        }
    }
}
