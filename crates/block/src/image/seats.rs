//! The holder's place at each of its devices: the session in which it asks, and what to do when a question fails (docs/rfd/0024, rule 4).
//!
//! ```text
//!   not entered ── enter ─► entered, session 1 ── Silent, Unknown ─► enters session 2 ─► entered, session 2 …
//!                                 │
//!                                 └── a change ended without an answer ─► in doubt ── the next request enters again ─► entered
//! ```
//!
//! A device is in doubt when a change that ended without an answer may still take effect there. Then every request enters it again before
//! it goes on: that ends what is under way and tells what stands there. So a change that failed, or whose caller went away, either stands
//! from then on or never will.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use types::DeviceId;

/// The places of a holder.
pub(crate) struct Seats {
    seats: RwLock<Vec<Arc<Seat>>>,
    /// How many of them are in doubt.
    doubts: AtomicUsize,
}

/// A holder's place at a device.
pub(crate) struct Seat {
    pub(crate) device: DeviceId,
    /// Held by the request that enters.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// It did not answer lately: reads ask other copies first.
    is_suspect: AtomicBool,
    sitting: Mutex<Sitting>,
}

struct Sitting {
    /// Entered; 0: none yet.
    session: u32,
    /// The last that the store was asked for.
    tried: u32,
    is_in_doubt: bool,
}

impl Seats {
    pub(crate) fn new(devices: impl Iterator<Item = DeviceId>) -> Seats {
        Seats { seats: RwLock::new(devices.map(Seat::new).collect()), doubts: AtomicUsize::new(0) }
    }

    pub(crate) fn add(&self, device: DeviceId) {
        let mut seats = self.seats.write();
        if seats.iter().all(|seat| seat.device != device) {
            seats.push(Seat::new(device));
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Seat>> {
        self.seats.read().clone()
    }

    pub(crate) fn of(&self, device: DeviceId) -> Option<Arc<Seat>> {
        self.seats.read().iter().find(|seat| seat.device == device).cloned()
    }

    /// Whether a device is in doubt.
    pub(crate) fn any_in_doubt(&self) -> bool {
        self.doubts.load(Ordering::SeqCst) > 0
    }

    /// The session in which a seat is in doubt, if it is.
    pub(crate) fn doubt_of(&self, seat: &Seat) -> Option<u32> {
        let sitting = seat.sitting.lock();
        sitting.is_in_doubt.then_some(sitting.session)
    }

    /// A change that was sent in `session` ended without an answer.
    pub(crate) fn doubt(&self, seat: &Seat, session: u32) {
        let mut sitting = seat.sitting.lock();
        // A later session has ended it.
        if sitting.session == session && !sitting.is_in_doubt {
            sitting.is_in_doubt = true;
            self.doubts.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A session was entered, and what the device told is in the map.
    pub(crate) fn entered(&self, seat: &Seat, session: u32) {
        let mut sitting = seat.sitting.lock();
        assert!(sitting.session < session && session <= sitting.tried, "sessions ascend");
        sitting.session = session;
        if sitting.is_in_doubt {
            sitting.is_in_doubt = false;
            self.doubts.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What is under way at a device does not matter any more: it is out.
    pub(crate) fn dismiss(&self, seat: &Seat) {
        let mut sitting = seat.sitting.lock();
        if std::mem::take(&mut sitting.is_in_doubt) {
            self.doubts.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Watches a change that is sent now.
    pub(crate) fn flight<'a>(&'a self, seat: &'a Seat, session: u32) -> Flight<'a> {
        Flight { seats: self, seat, session, is_under_way: true }
    }
}

impl Seat {
    fn new(device: DeviceId) -> Arc<Seat> {
        let sitting = Mutex::new(Sitting { session: 0, tried: 0, is_in_doubt: false });
        Arc::new(Seat { device, turn: tokio::sync::Mutex::default(), is_suspect: AtomicBool::new(false), sitting })
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    pub(crate) fn suspect(&self, is_suspect: bool) {
        self.is_suspect.store(is_suspect, Ordering::Relaxed);
    }

    pub(crate) fn session(&self) -> u32 {
        self.sitting.lock().session
    }

    /// The next session to enter.
    pub(crate) fn next_session(&self) -> u32 {
        let mut sitting = self.sitting.lock();
        sitting.tried += 1;
        sitting.tried
    }

    /// Whether a later session than the present one was asked for: the store may have entered it although its answer was lost.
    pub(crate) fn tried_later(&self) -> bool {
        let sitting = self.sitting.lock();
        sitting.tried > sitting.session
    }
}

/// A change on its way to a store. Dropped before it has landed, it leaves its device in doubt.
pub(crate) struct Flight<'a> {
    seats: &'a Seats,
    seat: &'a Seat,
    session: u32,
    is_under_way: bool,
}

impl Flight<'_> {
    /// The effect of the change is known.
    pub(crate) fn land(mut self) {
        self.is_under_way = false;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if self.is_under_way {
            self.seats.doubt(self.seat, self.session);
        }
    }
}
