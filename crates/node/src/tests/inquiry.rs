//! Whom a node believes that it was removed.

use super::service::simulate;
use crate::inquiry::is_denied;
use bytes::Bytes;
use env::{Env, Instant};
use net::{BoxFuture, CallError, Caller};
use parking_lot::Mutex;
use std::sync::Arc;

/// A member that gives these answers one after the other, then the last one for ever.
struct Scripted(Mutex<Vec<u8>>);

impl Caller for Scripted {
    fn call(&self, _question: Bytes, _deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            let mut answers = self.0.lock();
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
            Ok(Bytes::from(vec![answer]))
        })
    }
}

/// Whether it believes members that give these answers.
fn believes(members: &[&[u8]]) -> bool {
    simulate(async {
        let scripted = |answers: &&[u8]| -> Arc<dyn Caller> { Arc::new(Scripted(Mutex::new(answers.to_vec()))) };
        let callers: Vec<_> = members.iter().map(scripted).collect();
        let others = (0..members.len()).map(|number| number.to_string()).collect();
        let to = |address: &str| callers[address.parse::<usize>().unwrap()].clone();
        is_denied(&Env::simulated(1), &others, Bytes::from_static(b"?"), &to).await
    })
}

#[test]
fn a_member_that_lags_is_not_believed() {
    assert!(!believes(&[&[0, 1]]), "it had not heard of the node yet");
    assert!(!believes(&[&[0, 1], &[1]]));
    assert!(!believes(&[&[0, 0, 0, 1], &[1]]));
    assert!(!believes(&[&[1], &[1]]));
    assert!(!believes(&[]), "nobody has said anything");
}

#[test]
fn a_node_that_was_removed_is_told() {
    assert!(believes(&[&[0]]));
    assert!(believes(&[&[0], &[0]]));
    assert!(believes(&[&[0], &[1, 1, 0]]), "one lags, and says yes for a while");
}
