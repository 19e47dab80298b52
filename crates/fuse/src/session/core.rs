//! What the threads of a session, its replies and its notifications share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::in_flight::{Admission, InFlight, ReturnAddress};
use super::{End, MAX_IN_FLIGHT, MAX_WAITING_LOCKS};
use crate::abi;
use crate::device::Device;
use crate::ids::{RequestId, SessionId};
use crate::reply::{Body, Form, error_header, success_header};

/// How often a thread that waits for room looks whether the mount is still there.
const ROOM_CHECK: Duration = Duration::from_millis(100);

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The kernel took it.
    Delivered,
    /// The kernel does not wait for it any more: the mount was aborted, or the request is being sent again and will come anew. References
    /// and handles that the answer gave are not the kernel's.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Core {
    devices: Vec<Device>,
    session: SessionId,
    in_flight: Mutex<InFlight>,
    room: Condvar,
    stopping: AtomicBool,
    /// Readable when the session stops.
    stop: OwnedFd,
    threads: Mutex<Threads>,
    thread_ended: Condvar,
}

#[derive(Debug)]
struct Threads {
    running: usize,
    end: Option<End>,
}

impl Core {
    pub(super) fn new(devices: Vec<Device>, session: SessionId, threads: usize) -> Result<Self, Errno> {
        Ok(Core {
            devices,
            session,
            in_flight: Mutex::new(InFlight::new(MAX_IN_FLIGHT, MAX_WAITING_LOCKS)),
            room: Condvar::new(),
            stopping: AtomicBool::new(false),
            stop: eventfd(0, EventfdFlags::CLOEXEC)?,
            threads: Mutex::new(Threads { running: threads, end: None }),
            thread_ended: Condvar::new(),
        })
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }

    pub(super) fn device(&self, index: usize) -> &Device {
        &self.devices[index]
    }

    /// Registers a request that was read, and waits for room if need be. False where it is not to be handed on.
    pub(super) fn admit(&self, id: RequestId, unique: u64, device: usize, waits: bool) -> bool {
        let mut in_flight = self.in_flight.lock();
        match in_flight.admit(id, ReturnAddress { unique, device }, waits) {
            Admission::New => true,
            Admission::Again => false,
            Admission::TooManyWait => {
                drop(in_flight);
                self.answer_directly(device, unique, Err(Errno::NOLCK));
                false
            }
            Admission::NewWhenThereIsRoom => {
                while !in_flight.has_room() {
                    let timed_out = self.room.wait_for(&mut in_flight, ROOM_CHECK).timed_out();
                    if timed_out && (self.is_stopping() || self.devices[device].wait_readable(Duration::ZERO).is_err()) {
                        // The answer goes nowhere. Of a session that stops, the successor is sent the request again.
                        in_flight.finish(id);
                        return false;
                    }
                }
                true
            }
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.lock().len()
    }

    pub(super) fn interrupt(&self, id: RequestId) -> bool {
        self.in_flight.lock().interrupt(id)
    }

    pub(super) fn is_interrupted(&self, id: RequestId) -> bool {
        self.in_flight.lock().is_interrupted(id)
    }

    /// Gives an interrupt back to the kernel, which sends it again: its request is not known here yet, or was answered just now.
    ///
    /// The kernel looks for the request in the queue of the device that the answer comes from, so all are told; those without it say
    /// ENOENT.
    pub(super) fn return_interrupt(&self, unique: u64) {
        let header = error_header(unique | abi::UNIQUE_INTERRUPT, Errno::AGAIN);
        for device in &self.devices {
            log_failure(device.write(&header, &[]), "an interrupt could not be given back");
        }
    }

    /// Answers a request under way.
    pub(super) fn answer<T: Body>(&self, id: RequestId, form: Form, answer: Result<T, Errno>) -> Delivery {
        let mut in_flight = self.in_flight.lock();
        let Some(to) = in_flight.finish(id) else { return Delivery::Gone };
        drop(in_flight);
        // Without waiters this is one load.
        self.room.notify_one();
        let device = &self.devices[to.device];
        let sent = answer.and_then(|body| body.encode(form, |parts| device.write(&success_header(to.unique, parts), parts)));
        match sent {
            Ok(written) => delivery(written),
            Err(errno) => delivery(device.write(&error_header(to.unique, errno), &[])),
        }
    }

    /// Forgets the requests under way, which are not answered by this session any more; how many they are.
    pub(super) fn abandon(&self) -> usize {
        self.in_flight.lock().clear()
    }

    /// Answers a request that is not under way.
    pub(super) fn answer_directly(&self, device: usize, unique: u64, answer: Result<(), Errno>) {
        let header = match answer {
            Ok(()) => success_header(unique, &[]),
            Err(errno) => error_header(unique, errno),
        };
        log_failure(self.devices[device].write(&header, &[]), "an answer could not be given");
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// What threads wait for beside requests.
    pub(super) fn stop_signal(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    /// Has all threads end when they have served what they are serving.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        if let Err(errno) = rustix::io::write(&self.stop, &1_u64.to_ne_bytes()) {
            tracing::error!(%errno, "threads could not be woken; they stop at the next request");
        }
    }

    /// The first thread's reason is the session's. Returns whether this was the last thread.
    pub(super) fn thread_ends(&self, end: End) -> bool {
        let mut threads = self.threads.lock();
        threads.running -= 1;
        threads.end.get_or_insert(end);
        self.thread_ended.notify_all();
        threads.running == 0
    }

    /// Waits until all threads have ended, or until `patience` is over.
    pub(super) fn wait(&self, patience: Option<Duration>) -> Option<End> {
        let mut threads = self.threads.lock();
        match patience {
            None => self.thread_ended.wait_while(&mut threads, |threads| threads.running > 0),
            Some(patience) => {
                self.thread_ended.wait_while_for(&mut threads, |threads| threads.running > 0, patience);
            }
        }
        if threads.running == 0 { threads.end.clone() } else { None }
    }

    pub(super) fn running(&self) -> usize {
        self.threads.lock().running
    }
}

fn delivery(written: Result<(), Errno>) -> Delivery {
    match written {
        Ok(()) => Delivery::Delivered,
        // A request that the kernel gave up, and mounts that are gone.
        Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::PERM | Errno::PIPE) => Delivery::Gone,
        Err(errno) => {
            tracing::error!(%errno, "the kernel refused an answer");
            Delivery::Gone
        }
    }
}

fn log_failure(written: Result<(), Errno>, what: &'static str) {
    match written {
        Ok(()) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED | Errno::PERM | Errno::PIPE) => {}
        Err(errno) => tracing::error!(%errno, what),
    }
}
