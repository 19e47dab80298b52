//! Scrubs that a person asks for: `POST /scrub`, and how far they are: `GET /scrub`. What `trilith device scrub` speaks.
//!
//! To ask for one takes no credentials either: it reads, at a bounded rate, and what it heals would be healed when it is found anyway.

use crate::server::Admin;
use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use logstore::{ScrubProgress, ScrubState};
use serde::{Deserialize, Serialize};
use subsystem::AskedScrub;
use types::DeviceId;

/// One device's scrub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    pub device: u32,
    pub state: ScrubStep,
    /// Bytes that are to be read; those that new objects go to at the moment are not among them.
    pub bytes: u64,
    pub read_bytes: u64,
    /// Damaged frames, of which nobody may need some.
    pub damaged_frames: u64,
    /// Damaged copies, of whichever subsystem, and those that are not made again so far.
    pub damaged_copies: u64,
    pub left_copies: u64,
    /// A large object's list could not be read, which may name more.
    pub list_unread: bool,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubStep {
    Reading,
    /// All is read, and damaged copies are being made again.
    Healing,
    Done,
    /// The device takes no more writes: it is read no further.
    Stopped,
}

impl ScrubStatus {
    pub fn is_over(&self) -> bool {
        matches!(self.state, ScrubStep::Done | ScrubStep::Stopped)
    }

    /// With what a subsystem has on the device. It is as far as the part that is less far.
    fn with(mut self, other: &AskedScrub) -> ScrubStatus {
        let state = match other.step {
            subsystem::ScrubStep::Reading => ScrubStep::Reading,
            subsystem::ScrubStep::Healing => ScrubStep::Healing,
            subsystem::ScrubStep::Done => ScrubStep::Done,
        };
        self.state = match (self.state, state) {
            (ScrubStep::Reading, _) | (_, ScrubStep::Reading) => ScrubStep::Reading,
            (ScrubStep::Healing, _) | (_, ScrubStep::Healing) => ScrubStep::Healing,
            (of_objects, _) => of_objects,
        };
        self.bytes += other.bytes;
        self.read_bytes += other.read_bytes;
        self.damaged_copies += other.damaged;
        self.left_copies += other.left;
        self
    }
}

impl From<ScrubProgress> for ScrubStatus {
    fn from(scrub: ScrubProgress) -> Self {
        let state = match scrub.state {
            ScrubState::Reading => ScrubStep::Reading,
            ScrubState::Healing => ScrubStep::Healing,
            ScrubState::Done => ScrubStep::Done,
            ScrubState::Stopped => ScrubStep::Stopped,
        };
        ScrubStatus {
            device: scrub.device.0,
            state,
            bytes: scrub.bytes,
            read_bytes: scrub.read_bytes,
            damaged_frames: scrub.damaged_frames,
            damaged_copies: scrub.damaged_copies,
            left_copies: scrub.left_copies,
            list_unread: scrub.is_list_unread,
        }
    }
}

#[derive(Deserialize)]
pub struct Wanted {
    /// All devices of the server without it.
    device: Option<u32>,
}

pub async fn begin(State(admin): State<Admin>, Query(wanted): Query<Wanted>) -> Response {
    let Some(store) = admin.store() else { return no_store() };
    let wanted = wanted.device.map(DeviceId);
    match store.scrub(wanted) {
        Ok(begun) => {
            let others: Vec<AskedScrub> =
                admin.subsystems().iter().flat_map(|subsystem| subsystem.begin_scrub(wanted)).collect();
            (StatusCode::ACCEPTED, Json(described(begun, &others))).into_response()
        }
        Err(error) => (StatusCode::NOT_FOUND, error.to_string()).into_response(),
    }
}

pub async fn progress(State(admin): State<Admin>) -> Response {
    let Some(store) = admin.store() else { return no_store() };
    let others: Vec<AskedScrub> = admin.subsystems().iter().flat_map(|subsystem| subsystem.scrubs()).collect();
    Json(described(store.scrubs(), &others)).into_response()
}

/// What the subsystems have on a device is read side by side, and told as one.
fn described(scrubs: Vec<ScrubProgress>, others: &[AskedScrub]) -> Vec<ScrubStatus> {
    let of_device = |scrub: ScrubProgress| {
        let of_others = others.iter().filter(|other| other.device == scrub.device);
        of_others.fold(ScrubStatus::from(scrub), |status, other| status.with(other))
    };
    scrubs.into_iter().map(of_device).collect()
}

fn no_store() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the server is starting, stopping, or not in its cell's view").into_response()
}
