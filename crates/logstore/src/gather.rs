//! The copies of one record on their way to the targets: counts them in and keeps where each one landed.

use format::entry::Places;
use format::replicas::ReplicaDevices;
use smallvec::SmallVec;
use types::limits::MAX_REPLICAS;
use types::{Generation, Order, Place, Position};

/// Where a copy landed, or why it did not.
pub type CopyResult = Result<(Place, Position), CopyFailure>;

/// Why a copy failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyFailure {
    /// Refused before anything was written.
    Full,
    /// Perhaps written, perhaps not: the device failed.
    Unknown(String),
}

/// Collects the outcomes of the appends of one record.
#[derive(Debug)]
pub struct Gather {
    outcomes: [Option<CopyResult>; MAX_REPLICAS],
    copies: usize,
    missing: usize,
}

/// All copies are accounted for.
#[derive(Debug, PartialEq, Eq)]
pub enum Gathered {
    /// Every copy is durable.
    Durable { order: Order, places: Places },
    /// No room on one of the devices at least. Elsewhere copies may stand.
    Full { partly: bool },
    /// At least one copy may stand somewhere; the reason of the first failure.
    Unknown(String),
}

impl Gather {
    pub fn new(devices: &ReplicaDevices) -> Self {
        Gather { outcomes: [const { None }; MAX_REPLICAS], copies: devices.len(), missing: devices.len() }
    }

    /// Notes a copy's outcome; true when it was the last.
    pub fn note(&mut self, replica: usize, outcome: CopyResult) -> bool {
        assert!(replica < self.copies && self.outcomes[replica].is_none(), "a copy is accounted for once");
        self.outcomes[replica] = Some(outcome);
        self.missing -= 1;
        self.missing == 0
    }

    /// What became of the record. Its order is the primary's position (RFD 2, decision 2), unless it was given one.
    pub fn outcome(&self, generation: Generation, order: Option<Order>) -> Gathered {
        assert!(self.missing == 0, "copies are still on their way");
        let outcomes = || self.outcomes[..self.copies].iter().flatten();
        let failure = outcomes().find_map(|outcome| match outcome {
            Err(CopyFailure::Unknown(reason)) => Some(reason.clone()),
            Err(CopyFailure::Full) | Ok(_) => None,
        });
        if let Some(reason) = failure {
            return Gathered::Unknown(reason);
        }
        if outcomes().any(Result::is_err) {
            return Gathered::Full { partly: outcomes().any(Result::is_ok) };
        }
        let landed: SmallVec<[(Place, Position); MAX_REPLICAS]> = outcomes().flatten().copied().collect();
        let places: SmallVec<[Place; MAX_REPLICAS]> = landed.iter().map(|(place, _)| *place).collect();
        Gathered::Durable {
            order: order.unwrap_or(Order::new(generation, landed[0].1)),
            places: Places::new(&places).expect("a record has at least one copy"),
        }
    }
}
