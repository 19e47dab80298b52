//! How much one connection has in flight, and the pool that all of them draw on.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use crate::limits::{ALLOWANCE_BYTES, ALLOWANCE_REQUESTS, Limits, MAX_PAYLOAD_BYTES};

/// What connections share beyond their allowances.
pub struct Pool {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

impl Pool {
    pub fn new(limits: &Limits) -> Pool {
        let bytes = limits.shared_bytes.max(MAX_PAYLOAD_BYTES as usize);
        Pool { requests: Arc::new(Semaphore::new(limits.shared_requests)), bytes: Arc::new(Semaphore::new(bytes)) }
    }
}

/// What one connection has in flight.
pub struct Account {
    requests: Quantity,
    bytes: Quantity,
}

impl Account {
    pub fn new(pool: &Pool, limits: &Limits) -> Account {
        let most_bytes = limits.bytes_per_connection.max(MAX_PAYLOAD_BYTES as usize);
        Account {
            requests: Quantity::new(&pool.requests, ALLOWANCE_REQUESTS, limits.requests_per_connection.max(1)),
            bytes: Quantity::new(&pool.bytes, ALLOWANCE_BYTES, most_bytes),
        }
    }

    /// One more request. Pending wakes the task only for the pool: what the connection itself gives back, it knows.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.requests.poll_take(cx, 1)
    }

    pub fn end_request(&mut self) {
        self.requests.give_back(1);
    }

    /// That many more bytes of payload.
    pub fn poll_bytes(&mut self, cx: &mut Context<'_>, count: u32) -> Poll<()> {
        self.bytes.poll_take(cx, count as usize)
    }

    /// Nothing more will be asked for.
    pub fn stop_waiting(&mut self) {
        self.requests.stop_waiting();
        self.bytes.stop_waiting();
    }

    pub fn end_bytes(&mut self, count: usize) {
        self.bytes.give_back(count);
    }
}

/// A quantity in flight: up to the allowance it is free, beyond it is held of the pool.
struct Quantity {
    pool: PollSemaphore,
    allowance: usize,
    most: usize,
    in_flight: usize,
    of_pool: usize,
    /// Stands in the pool's queue.
    is_waiting: bool,
}

impl Quantity {
    fn new(pool: &Arc<Semaphore>, allowance: usize, most: usize) -> Quantity {
        Quantity { pool: PollSemaphore::new(pool.clone()), allowance, most, in_flight: 0, of_pool: 0, is_waiting: false }
    }

    fn poll_take(&mut self, cx: &mut Context<'_>, count: usize) -> Poll<()> {
        let wanted = self.in_flight + count;
        if wanted > self.most {
            return Poll::Pending;
        }
        let missing = wanted.saturating_sub(self.allowance + self.of_pool);
        if missing == 0 {
            self.stop_waiting();
        } else {
            let missing_permits = u32::try_from(missing).expect("limits of a connection are below 4 GiB");
            self.is_waiting = true;
            let Poll::Ready(permit) = self.pool.poll_acquire_many(cx, missing_permits) else { return Poll::Pending };
            self.is_waiting = false;
            permit.expect("the pool is never closed").forget();
            self.of_pool += missing;
        }
        self.in_flight = wanted;
        Poll::Ready(())
    }

    /// Leaves the pool's queue: what is not needed any more must not keep others waiting.
    fn stop_waiting(&mut self) {
        if self.is_waiting {
            self.pool = self.pool.clone();
            self.is_waiting = false;
        }
    }

    fn give_back(&mut self, count: usize) {
        self.in_flight = self.in_flight.checked_sub(count).expect("only what was taken is given back");
        let needed = self.in_flight.saturating_sub(self.allowance);
        if self.of_pool > needed {
            self.pool.add_permits(self.of_pool - needed);
            self.of_pool = needed;
        }
    }
}

impl Drop for Quantity {
    fn drop(&mut self) {
        self.pool.add_permits(self.of_pool);
    }
}

#[cfg(test)]
mod tests;
