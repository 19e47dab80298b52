//! The runtime that Raft runs on: tokio's tasks and timers, `env`'s clock and randomness.
//!
//! Raft asks for both through functions without an argument. Each task of a node therefore carries the node's [`Env`], and a task
//! that is started by one of them inherits it. Two nodes of a simulation in one thread thus have clocks and seeds of their own.
//!
//! The clock is `env`'s and not tokio's, because a lease must run out while a machine sleeps. Timers are tokio's: after a sleep of
//! the machine they may ring late, and whoever they wake asks the clock.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::sync::OnceLock;
use std::time::Duration;

use env::Env;
use openraft::type_config::AsyncRuntime;
use openraft::{OptionalSend, rt};
use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot, TokioRuntime};

use super::watch::EnvWatch;

tokio::task_local! {
    static TASK_ENV: Env;
}

/// Runs `work` with `env` as the source of time and chance for all of Raft that it starts.
pub(crate) fn within<F: Future>(env: &Env, work: F) -> impl Future<Output = F::Output> + use<F> {
    TASK_ENV.scope(env.clone(), work)
}

/// The environment of this task; the operating system's, if nobody set one.
fn task_env() -> Env {
    static REAL: OnceLock<Env> = OnceLock::new();
    TASK_ENV.try_with(Env::clone).unwrap_or_else(|_| REAL.get_or_init(Env::real).clone())
}

pub(crate) struct EnvRuntime(TokioRuntime);

impl fmt::Debug for EnvRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvRuntime")
    }
}

/// A moment of `env`'s clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(env::Instant);

impl Moment {
    pub(crate) fn of(env: &Env) -> Moment {
        Moment(env.now())
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0 + duration)
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    fn sub(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(duration))
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl SubAssign<Duration> for Moment {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl openraft::Instant for Moment {
    fn now() -> Moment {
        Moment(task_env().now())
    }
}

/// `env`'s randomness.
pub(crate) struct EnvRng(Env);

impl rand_core::TryRng for EnvRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.random_u64() as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.random_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.fill_random(bytes);
        Ok(())
    }
}

/// How long it is until `deadline`.
fn until(deadline: Moment) -> Duration {
    deadline.0.saturating_duration_since(task_env().now())
}

impl AsyncRuntime for EnvRuntime {
    type JoinError = tokio::task::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = tokio::task::JoinHandle<T>;
    type Sleep = tokio::time::Sleep;
    type Instant = Moment;
    type TimeoutError = tokio::time::error::Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = tokio::time::Timeout<T>;
    type ThreadLocalRng = EnvRng;
    type Mpsc = TokioMpsc;
    type Watch = EnvWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let env = task_env();
        env.spawn(within(&env, future))
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn sleep_until(deadline: Moment) -> Self::Sleep {
        tokio::time::sleep(until(deadline))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        tokio::time::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Moment, future: F) -> Self::Timeout<R, F> {
        tokio::time::timeout(until(deadline), future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        join_error.is_panic()
    }

    fn thread_rng() -> EnvRng {
        EnvRng(task_env())
    }

    fn new(threads: usize) -> Self {
        EnvRuntime(<TokioRuntime as rt::AsyncRuntime>::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        rt::AsyncRuntime::block_on(&mut self.0, future)
    }
}
