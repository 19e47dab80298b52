//! Which devices of an image count (docs/rfd/0024, rules 8 and 9).
//!
//! ```text
//!             lose: take_out ─► epoch + 1            follow: changes go there too, and what differs is brought
//!   in sync ───────────────────────────────► out ──────────────────────────────────────────────────────► follows
//!      ▲                                      ▲               any failure                                   │
//!      │                                      └─────────────────────────────────────────────────────────────┤
//!      └──────────────────────────────────────────────── join: put_in ─────────────────────────────────────┘
//! ```
//!
//! Invariants
//! - A device that counts for the record has all that was acknowledged. For this holder no device counts that does not for the record, unless
//!   a command about it is under way, or was not answered. Such a command is sent again before any other ([`Pending`]).
//! - Every blob has at least the copies that the record's redundancy says, also while blobs are being made.
//! - A blob keeps at least [`least_copies`] copies: below that, changes wait.

use std::sync::atomic::Ordering;

use manager::Redundancy;
use types::{DeviceId, ImageEpoch, NodeId};

use super::error::ImageError;
use super::map::{hosts_beside, lesser, redundancy_of};
use super::{Image, State};
use crate::registry::{RegistryError, View};

/// A command about a device whose outcome is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Out(DeviceId, Redundancy, Option<NodeId>),
    In(DeviceId, Redundancy),
}

/// Whether what a record says of hosts that are short stays true with a blob on these devices: beside such hosts it is on as many as the redundancy says.
pub(super) fn keeps_short_hosts(
    view: &View,
    devices: impl Iterator<Item = DeviceId>,
    host_of: impl Fn(DeviceId) -> Option<NodeId>,
) -> bool {
    view.short_hosts.is_empty() || hosts_beside(devices, &view.short_hosts, host_of) >= usize::from(view.redundancy.hosts)
}

/// Copies below which no device is taken out.
pub(crate) fn least_copies(wanted: u8) -> usize {
    usize::from(wanted.max(2)) - 1
}

impl Image {
    pub(crate) fn epoch(&self) -> ImageEpoch {
        ImageEpoch(self.epoch.load(Ordering::Acquire))
    }

    /// Whether the image goes on without a device: it is out, or each of its blobs has enough other copies.
    pub(crate) fn is_spare(&self, device: DeviceId) -> bool {
        let state = self.state.lock();
        !state.view.devices.contains(&device) || state.can_lose(device)
    }

    /// Takes a device out that failed or does not answer, if the image goes on without it. Returns when that stands in the record.
    pub(crate) async fn lose(&self, device: DeviceId, reason: &str) -> Result<(), ImageError> {
        let mut turn = self.resolved_standing().await?;
        let (redundancy, short_host) = {
            let mut state = self.state.lock();
            if !state.view.devices.contains(&device) {
                state.stop_following(device);
                return Ok(());
            }
            let is_leaving = self.outside.placement.is_leaving(device);
            if !(state.can_lose(device) || is_leaving && state.has_enough_without(device)) {
                return Err(ImageError::io(format!("device {device}: {reason}")));
            }
            // No blob that is finished from here on counts it.
            state.leaving = Some(device);
            let redundancy = lesser(self.found_without(&state, Some(device)), state.view.redundancy);
            let short_host = self.short_host(&state, &[device], redundancy);
            // Blobs that are begun from here on are held against it.
            state.view.short_hosts.extend(short_host);
            (redundancy, short_host)
        };
        tracing::warn!(image = %self.id, %device, reason, "its copies do not count any more");
        env::mark("images: a device taken out");
        *turn = Some(Pending::Out(device, redundancy, short_host));
        self.resolve(&mut turn).await?;
        self.wake_keeper();
        Ok(())
    }

    /// The turn to change which devices count, once what is pending is carried out.
    pub(crate) async fn resolved_standing(&self) -> Result<tokio::sync::MutexGuard<'_, Option<Pending>>, ImageError> {
        let mut turn = self.standing.lock().await;
        self.resolve(&mut turn).await?;
        Ok(turn)
    }

    pub(crate) async fn resolve_standing(&self) -> Result<(), ImageError> {
        self.resolved_standing().await.map(drop)
    }

    /// A device was given up: its copies are gone.
    pub(crate) fn forget(&self, device: DeviceId) {
        env::mark("images: a device that was given up forgotten");
        let mut state = self.state.lock();
        state.view.devices.retain(|other| *other != device);
        state.view.out.retain(|(other, _)| *other != device);
        state.following.remove(&device);
        state.map.forget(device);
        self.dismiss(device);
    }

    /// What is under way at a device does not matter any more.
    fn dismiss(&self, device: DeviceId) {
        if let Some(seat) = self.seats.of(device) {
            self.seats.dismiss(&seat);
        }
    }

    /// Has the record say no more than what is left.
    pub(crate) async fn lower_redundancy(&self) -> Result<(), ImageError> {
        let _turn = self.resolved_standing().await?;
        let lower = {
            let state = self.state.lock();
            lesser(self.found_without(&state, None), state.view.redundancy)
        };
        self.record_redundancy(lower).await
    }

    /// Has the record say how many copies all blobs have. The caller has the turn.
    async fn record_redundancy(&self, redundancy: Redundancy) -> Result<(), ImageError> {
        let registry = &*self.outside.registry;
        let view = self.send(|| registry.take_out(self.id, self.token, Vec::new(), redundancy, None)).await;
        let view = view.map_err(|error| self.refused(error))?;
        self.adopt_standing(&mut self.state.lock(), view);
        Ok(())
    }

    /// What the blobs have, a device not counted.
    pub(crate) fn found_without(&self, state: &State, without: Option<DeviceId>) -> Redundancy {
        let host_of = |device| if Some(device) == without { None } else { self.outside.placement.host_of(device) };
        state.map.redundancy(state.view.copies, host_of)
    }

    /// A host with a device that is out, or leaves now, and beside which each blob has copies on as many hosts as the record is to say. When the host is
    /// gone, the loss of its other devices is not another loss.
    pub(crate) fn short_host(&self, state: &State, leaving: &[DeviceId], redundancy: Redundancy) -> Option<NodeId> {
        if state.view.copies == 1 || !state.making.is_empty() {
            return None;
        }
        let host_of = |device| self.outside.placement.host_of(device);
        let out = leaving.iter().copied().chain(state.view.out.iter().map(|(device, _)| *device));
        let is_enough = |host: &NodeId| {
            let beside = state.map.least_hosts_beside(*host, host_of);
            beside.is_none_or(|hosts| hosts >= usize::from(redundancy.hosts))
        };
        out.filter_map(host_of).find(is_enough)
    }

    /// Carries out what is pending. Without an answer it stays pending.
    async fn resolve(&self, pending: &mut Option<Pending>) -> Result<(), ImageError> {
        let registry = &*self.outside.registry;
        let (id, token) = (self.id, self.token);
        let answer = match *pending {
            None => return Ok(()),
            Some(Pending::Out(device, redundancy, short_host)) => {
                self.send(|| registry.take_out(id, token, vec![device], redundancy, short_host)).await
            }
            Some(Pending::In(device, redundancy)) => self.send(|| registry.put_in(id, token, device, redundancy)).await,
        };
        if let Err(RegistryError::Unclear(_)) = answer {
            env::mark("images: a command about a device without an answer");
            return answer.map(drop).map_err(|error| self.refused(error));
        }
        let done = pending.take();
        if answer.is_err() {
            self.state.lock().leaving = None;
        }
        if let (Err(RegistryError::Refused(_)), Some(Pending::Out(device, ..) | Pending::In(device, _))) = (&answer, done)
            && self.outside.placement.host_of(device).is_none()
        {
            self.forget(device);
            return Ok(());
        }
        let view = answer.map_err(|error| self.refused(error))?;
        let mut state = self.state.lock();
        self.adopt_standing(&mut state, view);
        if let Some(Pending::Out(device, ..)) = done {
            state.map.forget(device);
            state.leaving = None;
            self.dismiss(device);
        }
        Ok(())
    }

    /// A device that is out does not follow any more; false if it is in sync.
    pub(crate) fn stop_following(&self, device: DeviceId) -> bool {
        let mut state = self.state.lock();
        if state.view.devices.contains(&device) {
            return false;
        }
        state.stop_following(device);
        self.dismiss(device);
        true
    }

    /// A device that follows has all that it lacked: it counts from now on.
    pub(crate) async fn join(&self, device: DeviceId) -> Result<(), ImageError> {
        let mut turn = self.resolved_standing().await?;
        let redundancy = {
            let mut state = self.state.lock();
            if !state.following.remove(&device) {
                return Err(ImageError::io(format!("device {device} failed while it was brought up to date")));
            }
            // From here on a failure there is the failure of a device in sync.
            state.view.out.retain(|(out, _)| *out != device);
            state.view.devices.push(device);
            state.view.devices.sort_unstable();
            state.map.promote(device);
            self.raised(&mut state)
        };
        *turn = Some(Pending::In(device, redundancy));
        self.resolve(&mut turn).await?;
        tracing::info!(image = %self.id, %device, "its copies count again");
        env::mark("images: a device put in again");
        Ok(())
    }

    /// Has the record say how many copies all blobs have, if it is more than the record says.
    pub(crate) async fn raise_redundancy(&self) -> Result<(), ImageError> {
        let mut turn = self.resolved_standing().await?;
        let (device, redundancy) = {
            let mut state = self.state.lock();
            let before = state.view.redundancy;
            let raised = self.raised(&mut state);
            match state.view.devices.first() {
                Some(device) if raised != before => (*device, raised),
                _ => return Ok(()),
            }
        };
        *turn = Some(Pending::In(device, redundancy));
        self.resolve(&mut turn).await
    }

    /// What the record may say. Blobs that are begun from now on are held against it.
    fn raised(&self, state: &mut State) -> Redundancy {
        if state.making.is_empty() {
            state.view.redundancy = self.found_without(state, None);
        }
        state.view.redundancy
    }

    /// Has the record say no more copies than a blob on these devices will have.
    pub(crate) async fn allow(&self, devices: &[DeviceId]) -> Result<(), ImageError> {
        let host_of = |device| self.outside.placement.host_of(device);
        let view = self.view();
        let found = redundancy_of(devices.iter().copied(), view.copies, host_of);
        let is_allowed = |view: &View| {
            lesser(found, view.redundancy) == view.redundancy && keeps_short_hosts(view, devices.iter().copied(), host_of)
        };
        if is_allowed(&view) {
            return Ok(());
        }
        let _turn = self.resolved_standing().await?;
        let now = self.view();
        if is_allowed(&now) {
            return Ok(());
        }
        let lower = lesser(found, now.redundancy);
        env::mark("images: a blob begun with fewer copies than the others");
        self.record_redundancy(lower).await
    }

    /// Takes over what a record says of the devices.
    pub(crate) fn adopt_standing(&self, state: &mut State, view: View) {
        let known = |device: &DeviceId| view.devices.contains(device) || view.out.iter().any(|(out, _)| out == device);
        let before = state.view.devices.iter().chain(state.view.out.iter().map(|(device, _)| device)).copied();
        // Given up meanwhile.
        let gone: Vec<DeviceId> = before.filter(|device| !known(device)).collect();
        for device in gone {
            state.map.forget(device);
        }
        state.view.devices = view.devices;
        state.view.out = view.out;
        state.view.redundancy = view.redundancy;
        state.view.short_hosts = view.short_hosts;
        state.view.epoch = view.epoch;
        self.epoch.store(view.epoch.0, Ordering::Release);
    }
}

impl State {
    fn can_lose(&self, device: DeviceId) -> bool {
        self.view.copies > 1 && self.has_enough_without(device)
    }

    /// Whether a device can go of which it is known that no blob is being made there.
    fn has_enough_without(&self, device: DeviceId) -> bool {
        let wanted = self.view.copies;
        let others = self.view.devices.iter().filter(|other| **other != device).count();
        others >= least_copies(wanted) && self.map.least_without(device).is_none_or(|left| left >= least_copies(wanted))
    }

    fn stop_following(&mut self, device: DeviceId) {
        self.following.remove(&device);
        self.map.unfollow(device);
    }
}
