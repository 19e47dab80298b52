//! The signals that end a server in order: SIGTERM and SIGINT.

use std::future::Future;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals. From [`Signals::listen`] on they end the process only where somebody waits for them here.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one. One that came since the last time counts.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Does a part of a start; none if a signal comes first. The work is left where it is then, as a kill would leave it: a start
    /// may wait for other nodes, or read whole disks, and whoever ends it must not wait as long.
    pub async fn unless_told<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<Option<T>> {
        tokio::select! {
            done = work => done.map(Some),
            () = self.told() => {
                tracing::info!("told to stop before the start had ended");
                Ok(None)
            }
        }
    }
}
