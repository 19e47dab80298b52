//! Asking stores: which session a question goes in, and when it is sent again.

use std::future::Future;

use env::Instant;
use types::DeviceId;

use super::Image;
use super::error::{Fault, ImageError, ImageErrorKind};
use super::limits::{COPY_PATIENCE, COPY_PAUSE};
use super::seats::Seat;
use crate::stores::{Admission, Asked, StoreError};

/// Whether a question changes something. The caller holds the range of a change until its effect is known, or its device is in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Changes,
}

/// For how long a request is sent again. It begins with the first failure: a request that succeeds asks no clock.
#[derive(Default)]
struct Patience {
    deadline: Option<Instant>,
}

impl Patience {
    /// Waits a little; false when the time is over.
    async fn pause(&mut self, image: &Image) -> bool {
        let env = &image.outside.env;
        let deadline = *self.deadline.get_or_insert_with(|| env.now() + COPY_PATIENCE);
        if env.now() >= deadline {
            return false;
        }
        env.sleep(COPY_PAUSE).await;
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
        let Some(seat) = self.seats.of(device) else {
            return Err(ImageError::io(format!("device {device} is none of the image's")).into());
        };
        let mut patience = Patience::default();
        loop {
            self.check_open()?;
            let session = seat.session();
            let flight = (effect == Effect::Changes).then(|| self.seats.flight(seat, session));
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
            self.after_failure(seat, session, error, &mut patience).await?;
        }
    }

    /// Returns if the question shall be sent again.
    async fn after_failure(&self, seat: &Seat, session: u32, error: StoreError, patience: &mut Patience) -> Result<(), Fault> {
        match error {
            StoreError::NoSpace(device) => Err(Fault::NoSpace(device)),
            StoreError::Absent => Err(Fault::Absent),
            StoreError::Invalid(reason) => {
                tracing::error!(device = %seat.device, image = %self.id, reason, "a store was asked for what can't be");
                Err(ImageError::io(format!("device {}: {reason}", seat.device)).into())
            }
            StoreError::Failed(reason) => Err(ImageError::io(format!("device {}: {reason}", seat.device)).into()),
            StoreError::Superseded => {
                // A request of this holder may be entering a new session, or have tried to.
                let turn = seat.turn.lock().await;
                let is_own = seat.session() != session || seat.tried_later();
                drop(turn);
                if is_own { self.enter_again(seat, session, patience).await } else { Err(self.superseded().into()) }
            }
            StoreError::Unknown => self.enter_again(seat, session, patience).await,
            StoreError::Silent(reason) => {
                if !patience.pause(self).await {
                    return Err(ImageError::io(format!("device {} is silent: {reason}", seat.device)).into());
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
        loop {
            self.check_open()?;
            let session = seat.next_session();
            let reason = match self.outside.stores.enter(seat.device, self.admission(session)).await {
                Ok(rows) => {
                    // No request may see the new session before the map has what the device told.
                    let mut state = self.state.lock();
                    state.map.reconcile(seat.device, &rows);
                    self.seats.entered(seat, session);
                    return Ok(());
                }
                Err(StoreError::Superseded) => return Err(self.superseded().into()),
                Err(error @ (StoreError::Unknown | StoreError::Silent(_))) => error,
                Err(error) => return Err(ImageError::io(format!("device {}: {error}", seat.device)).into()),
            };
            if !patience.pause(self).await {
                return Err(ImageError::io(format!("device {}: {reason}", seat.device)).into());
            }
        }
    }

    /// Enters a device for the first time.
    pub(crate) async fn enter_first(&self, device: DeviceId) -> Result<(), ImageError> {
        let seat = self.seats.of(device).expect("a seat for each device");
        self.enter_again(seat, 0, &mut Patience::default()).await.map_err(ImageError::from)
    }

    /// Returns when no device is in doubt. Call it after the range is locked: a change that left a doubt there has then left it before.
    pub(crate) async fn settle(&self) -> Result<(), ImageError> {
        self.check_open()?;
        if !self.seats.any_in_doubt() {
            return Ok(());
        }
        for seat in self.seats.iter() {
            if let Some(session) = self.seats.doubt_of(seat) {
                self.enter_again(seat, session, &mut Patience::default()).await?;
            }
        }
        Ok(())
    }

    fn admission(&self, session: u32) -> Admission {
        Admission { image: self.id, token: self.token, session, epoch: self.epoch }
    }

    fn superseded(&self) -> ImageError {
        self.end(ImageErrorKind::Superseded);
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
