//! Asking stores: which session a question goes in, and when it is sent again.

use std::future::Future;
use std::time::Duration;

use env::Instant;
use types::DeviceId;

use super::error::{Fault, ImageError, ImageErrorKind};
use super::limits::{COPY_PATIENCE, COPY_PAUSE, LOSE_PATIENCE};
use super::seats::Seat;
use super::{Image, State};
use crate::stores::{Admission, Asked, BlobRow, StoreError};

/// Whether a question changes something. The caller holds the range of a change until its effect is known, or its device is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
}

/// For how long a request is sent again. It begins with the first failure: a request that succeeds asks no clock.
pub(crate) struct Patience {
    /// None: as long as the device's part in the image says.
    limit: Option<Duration>,
    deadline: Option<Instant>,
}

impl Patience {
    /// As long as the device's part in the image says.
    pub(crate) fn of_device() -> Patience {
        Patience { limit: None, deadline: None }
    }

    pub(crate) fn of(limit: Duration) -> Patience {
        Patience { limit: Some(limit), deadline: None }
    }

    fn deadline(&mut self, image: &Image, device: DeviceId) -> Instant {
        let limit = self.limit;
        *self.deadline.get_or_insert_with(|| {
            let limit = limit.unwrap_or_else(|| if image.is_spare(device) { LOSE_PATIENCE } else { COPY_PATIENCE });
            image.outside.env.now() + limit
        })
    }

    /// Waits a little; false when the time is over.
    async fn pause(&mut self, image: &Image, device: DeviceId) -> bool {
        let deadline = self.deadline(image, device);
        let env = &image.outside.env;
        let left = deadline.saturating_duration_since(env.now());
        if left.is_zero() {
            return false;
        }
        env.sleep(COPY_PAUSE.min(left)).await;
        true
    }
}

impl Image {
    /// Asks a store until the answer is definite, for a named time.
    pub(crate) async fn ask<'a, T>(
        &'a self,
        device: DeviceId,
        effect: Effect,
        question: impl Fn(Admission) -> Asked<'a, T>,
    ) -> Result<T, Fault> {
        self.ask_for(Patience::of_device(), device, effect, question).await
    }

    pub(crate) async fn ask_for<'a, T>(
        &'a self,
        mut patience: Patience,
        device: DeviceId,
        effect: Effect,
        question: impl Fn(Admission) -> Asked<'a, T>,
    ) -> Result<T, Fault> {
        let Some(seat) = self.seats.of(device) else {
            return Err(ImageError::io(format!("device {device} is none of the image's")).into());
        };
        loop {
            self.check_open()?;
            let session = seat.session();
            let flight = (effect == Effect::Changes).then(|| self.seats.flight(&seat, session));
            let answer = question(self.admission(session)).await;
            let is_definite = !matches!(answer, Err(StoreError::Failed(_) | StoreError::Silent(_)));
            if let Some(flight) = flight
                && is_definite
            {
                flight.land();
            }
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            self.after_failure(&seat, session, error, &mut patience).await?;
        }
    }

    /// Returns if the question shall be sent again.
    async fn after_failure(&self, seat: &Seat, session: u32, error: StoreError, patience: &mut Patience) -> Result<(), Fault> {
        match error {
            StoreError::NoSpace(device) => Err(Fault::NoSpace(device)),
            StoreError::Absent => Err(Fault::Absent(seat.device)),
            StoreError::Invalid(reason) => {
                tracing::error!(device = %seat.device, image = %self.id, reason, "a store was asked for what can't be");
                Err(ImageError::io(format!("device {}: {reason}", seat.device)).into())
            }
            StoreError::Failed(reason) => Err(Fault::Device(seat.device, reason)),
            StoreError::Superseded => {
                // A request of this holder may be entering a new session, or have tried to.
                let turn = seat.turn.lock().await;
                let is_own = seat.session() != session || seat.tried_later();
                drop(turn);
                if is_own { self.enter_again(seat, session, patience).await } else { Err(self.superseded().into()) }
            }
            StoreError::Unknown => self.enter_again(seat, session, patience).await,
            StoreError::Silent(reason) => {
                if !patience.pause(self, seat.device).await {
                    return Err(Fault::Device(seat.device, format!("it is silent: {reason}")));
                }
                self.enter_again(seat, session, patience).await
            }
        }
    }

    /// Enters a session later than `seen`, unless another request did so, and takes over what the device tells.
    async fn enter_again(&self, seat: &Seat, seen: u32, patience: &mut Patience) -> Result<(), Fault> {
        let _turn = seat.turn.lock().await;
        if seat.session() != seen {
            return Ok(());
        }
        self.enter_session(seat, patience, |state, rows| state.reconcile(seat.device, rows)).await
    }

    /// Enters the next session. What the device tells is taken over before any request sees that session. The caller has the turn.
    async fn enter_session(
        &self,
        seat: &Seat,
        patience: &mut Patience,
        take: impl FnOnce(&mut State, &[BlobRow]),
    ) -> Result<(), Fault> {
        loop {
            self.check_open()?;
            let session = seat.next_session();
            let asked = self.outside.stores.enter(seat.device, self.admission(session));
            let deadline = patience.deadline(self, seat.device);
            let env = &self.outside.env;
            let entered = tokio::select! {
                biased;
                entered = asked => entered,
                () = env.sleep(deadline.saturating_duration_since(env.now()).max(COPY_PAUSE)) => {
                    Err(StoreError::Silent("it does not answer in time".to_owned()))
                }
            };
            let reason = match entered {
                Ok(rows) => {
                    let mut state = self.state.lock();
                    take(&mut state, &rows);
                    self.seats.entered(seat, session);
                    if session > 1 {
                        env::mark("images: a device entered again");
                    }
                    seat.suspect(false);
                    return Ok(());
                }
                Err(StoreError::Superseded) => return Err(self.superseded().into()),
                Err(error @ (StoreError::Unknown | StoreError::Silent(_))) => error,
                Err(error) => return Err(Fault::Device(seat.device, error.to_string())),
            };
            if !patience.pause(self, seat.device).await {
                return Err(Fault::Device(seat.device, reason.to_string()));
            }
        }
    }

    /// Enters a device, and takes over what it tells.
    pub(crate) async fn enter_for(
        &self,
        device: DeviceId,
        limit: Duration,
        take: impl FnOnce(&mut State, &[BlobRow]),
    ) -> Result<(), Fault> {
        let seat = self.seats.of(device).expect("a seat for each device");
        let _turn = seat.turn.lock().await;
        self.enter_session(&seat, &mut Patience::of(limit), take).await
    }

    /// Returns when no device is in doubt. Call it after the range is locked: a change that left a doubt there has then left it before.
    pub(crate) async fn settle(&self) -> Result<(), ImageError> {
        self.check_open()?;
        if !self.seats.any_in_doubt() {
            return Ok(());
        }
        for seat in self.seats.all() {
            let Some(session) = self.seats.doubt_of(&seat) else { continue };
            env::mark("images: a device in doubt");
            if self.stop_following(seat.device) {
                continue;
            }
            match self.enter_again(&seat, session, &mut Patience::of_device()).await {
                Err(Fault::Device(device, reason)) => self.lose(device, &reason).await?,
                entered => entered?,
            }
        }
        Ok(())
    }

    /// The same for one device that is to be read. Others may have what it has.
    pub(crate) async fn settle_one(&self, device: DeviceId, patience: &mut Patience) -> Result<(), Fault> {
        let Some(seat) = self.seats.of(device) else { return Ok(()) };
        match self.seats.doubt_of(&seat) {
            Some(session) => self.enter_again(&seat, session, patience).await,
            None => Ok(()),
        }
    }

    fn admission(&self, session: u32) -> Admission {
        Admission { image: self.id, token: self.token, session, epoch: self.epoch() }
    }

    /// The record names another token: this holder is over.
    pub(crate) fn supersede(&self) {
        self.end(ImageErrorKind::Superseded);
    }

    fn superseded(&self) -> ImageError {
        self.supersede();
        self.check_open().expect_err("it has ended")
    }
}

/// Does one thing for each of several; the common case of one needs no list.
pub(crate) async fn each<T, O, F: Future<Output = Result<O, Fault>>>(
    items: &[T],
    run: impl Fn(&T) -> F,
) -> smallvec::SmallVec<[Result<O, Fault>; 2]> {
    match items {
        [item] => smallvec::smallvec![run(item).await],
        items => futures_util::future::join_all(items.iter().map(run)).await.into(),
    }
}
