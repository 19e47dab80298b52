//! The overseer's shell: it acts while this node leads the manager.

use crate::CELL;
use crate::node::Inner;
use bytes::Bytes;
use manager::overseer::{Answer, Facts, Heartbeat, Input, Output};
use net::{BoxFuture, Refusal, Request, Service};
use std::sync::{Arc, Weak};
use std::time::Duration;
use topology::ClockReading;

/// How often time is told to the overseer.
const TICK: Duration = Duration::from_millis(100);

/// Takes heartbeats.
pub(crate) struct HeartbeatService(pub Weak<Inner>);

impl Service for HeartbeatService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let node = self.0.upgrade().ok_or_else(|| Refusal::new("this node ends"))?;
            let heartbeat = Heartbeat::decode(&request.payload).map_err(Refusal::new)?;
            // A lease is granted only while nobody else can lead: the next leader waits for all that were.
            node.manager.confirm_lead().await.map_err(Refusal::new)?;
            let answer = node.oversee(Input::Heartbeat(heartbeat)).ok_or_else(|| Refusal::new("not overseeing yet"))?;
            Ok(Bytes::from(answer.encode()))
        })
    }
}

impl Inner {
    /// Lets the overseer act when this node leads, for as long as it lives.
    pub(crate) async fn run_overseer(self: Arc<Self>) {
        let mut changes = self.manager.changes();
        let mut told: Option<Facts> = None;
        loop {
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { return },
                () = self.env.sleep(TICK) => {}
            }
            let leads = self.manager.is_leader() && self.manager.confirm_lead().await.is_ok();
            match (leads, &told) {
                (false, None) => continue,
                (false, Some(_)) => {
                    told = None;
                    self.oversee(Input::Stopped);
                    continue;
                }
                // All that former leaders committed is known here before anything is decided.
                (true, None) if self.manager.fresh().await.is_err() => continue,
                (true, _) => {}
            }
            let Some(facts) = Facts::of(&self.manager.snapshot(), CELL) else { continue };
            let input = match &told {
                None => Input::Started(facts.clone()),
                Some(known) if *known != facts => Input::Changed(facts.clone()),
                Some(_) => Input::Tick,
            };
            told = Some(facts);
            self.oversee(input);
        }
    }

    /// One step of the overseer; the answer to a heartbeat, if it gave one.
    fn oversee(self: &Arc<Self>, input: Input) -> Option<Answer> {
        let now = ClockReading { nanos: self.env.now().as_nanos() };
        let outputs = {
            let mut overseer = self.overseer.lock();
            overseer.follow(self.manager.snapshot().applied(), now);
            overseer.step(input, now)
        };
        let mut answered = None;
        for output in outputs {
            match output {
                Output::Answer { answer, .. } => answered = Some(answer),
                Output::Propose { proposal, reason } => {
                    tracing::info!(%reason, "the cell's view is to change");
                    let node = self.clone();
                    self.env.spawn(async move {
                        if let Err(error) = node.manager.carry_out(proposal).await {
                            tracing::info!(%error, "a change of the cell was not carried out");
                        }
                    });
                }
            }
        }
        answered
    }
}
