//! The overseer's shell: it acts while this node leads the manager.
//!
//! It begins as soon as the node takes part in the manager, and needs nothing else of it. A node may lead as soon as that, and its devices may take long to
//! open, or for ever: nobody would get a lease from it, though all others could go on without it.

use crate::CELL;
use crate::clocks::Clocks;
use bytes::Bytes;
use env::Env;
use manager::Manager;
use manager::overseer::{Answer, Facts, Heartbeat, Input, Output, Overseer};
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use topology::{ClockReading, LeaseTerms};

/// How often time is told to the overseer.
const TICK: Duration = Duration::from_millis(100);

/// The overseer of the cell, on this node.
pub(crate) struct Oversight {
    env: Env,
    manager: Arc<Manager>,
    overseer: Mutex<Overseer>,
    clocks: Mutex<Clocks>,
}

/// Takes heartbeats.
pub(crate) struct HeartbeatService(pub Arc<Oversight>);

impl Service for HeartbeatService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let oversight = &self.0;
            let heartbeat = Heartbeat::decode(&request.payload).map_err(Refusal::new)?;
            // A lease is granted only while nobody else can lead: the next leader waits for all that were.
            oversight.manager.confirm_lead().await.map_err(Refusal::new)?;
            let (node, theirs_ms) = (heartbeat.node, heartbeat.wall_clock_ms);
            oversight.clocks.lock().note(&oversight.manager.snapshot(), node, theirs_ms, oversight.env.wall_clock_ms());
            let answer = oversight.oversee(Input::Heartbeat(heartbeat)).ok_or_else(|| Refusal::new("not overseeing yet"))?;
            Ok(Bytes::from(answer.encode()))
        })
    }
}

impl Oversight {
    pub fn new(env: &Env, manager: &Arc<Manager>, terms: LeaseTerms) -> Arc<Oversight> {
        let overseer = Mutex::new(Overseer::new(CELL, terms));
        Arc::new(Oversight { env: env.clone(), manager: manager.clone(), overseer, clocks: Mutex::default() })
    }

    /// Lets the overseer act when this node leads, for as long as it lives.
    pub async fn run(self: Arc<Self>) {
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
                    let manager = self.manager.clone();
                    self.env.spawn(async move {
                        if let Err(error) = manager.carry_out(proposal).await {
                            tracing::info!(%error, "a change of the cell was not carried out");
                        }
                    });
                }
            }
        }
        answered
    }
}
