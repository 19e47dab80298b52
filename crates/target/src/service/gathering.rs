//! The outcomes of the appends of one request, until the last of them is known.

use std::sync::Arc;

use device::{AppendDone, AppendError, Appended};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::failed_append;
use crate::wire::Failure;

type Outcomes = Vec<Result<Appended, Failure>>;

/// Gathers outcomes by their appends' tags, which count from 0, and hands them over when none is missing.
pub(super) struct Gathering(Mutex<Option<Open>>);

struct Open {
    outcomes: Vec<Option<Result<Appended, Failure>>>,
    missing: usize,
    tell: oneshot::Sender<Outcomes>,
}

impl Gathering {
    /// For so many appends. The receiver gets all outcomes at once.
    pub fn new(appends: usize) -> (Arc<Gathering>, oneshot::Receiver<Outcomes>) {
        let (tell, told) = oneshot::channel();
        let gathering = match appends {
            0 => {
                tell.send(Vec::new()).expect("the receiver is here");
                None
            }
            missing => Some(Open { outcomes: vec![None; missing], missing, tell }),
        };
        (Arc::new(Gathering(Mutex::new(gathering))), told)
    }

    /// Notes the outcome of one append. Each has one.
    pub fn note(&self, tag: usize, outcome: Result<Appended, Failure>) {
        let mut gathering = self.0.lock();
        let open = gathering.as_mut().expect("an append has one outcome");
        let earlier = open.outcomes[tag].replace(outcome);
        assert!(earlier.is_none(), "an append has one outcome");
        open.missing -= 1;
        if open.missing > 0 {
            return;
        }
        let Open { outcomes, tell, .. } = gathering.take().expect("looked at above");
        drop(gathering);
        let all = outcomes.into_iter().map(|outcome| outcome.expect("none is missing")).collect();
        // The connection may have ended.
        drop(tell.send(all));
    }
}

impl AppendDone for Gathering {
    fn appended(&self, tag: u64, outcome: Result<Appended, AppendError>) {
        self.note(tag as usize, outcome.map_err(|error| failed_append(&error)));
    }
}
