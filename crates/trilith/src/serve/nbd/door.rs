//! The listeners, and the threads that serve them: one current-thread runtime and one disk ring each, as for S3.

use super::export::PlaceExports;
use block::protocol::ListenAt;
use block::{Door, Offered};
use nbd::{Listener, NbdConfig, NbdServer, Stop};
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// Listeners that wait for a thread: a person opens them one by one.
const MAX_WAITING: usize = 64;

/// Serves images by NBD.
pub struct NbdDoor {
    cores: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Started with the first listener.
    threads: Vec<mpsc::Sender<Job>>,
    open: BTreeMap<ListenAt, Open>,
}

/// A place that is served.
struct Open {
    server: Arc<NbdServer>,
    stop: watch::Sender<Stop>,
    /// Of each thread: its part has ended.
    ended: Vec<oneshot::Receiver<()>>,
}

/// One thread's part of a place.
struct Job {
    server: Arc<NbdServer>,
    listener: Listener,
    stop: watch::Receiver<Stop>,
    ended: oneshot::Sender<()>,
}

impl NbdDoor {
    pub fn new(cores: usize) -> NbdDoor {
        NbdDoor { cores, state: Mutex::default() }
    }

    fn try_open(&self, at: &ListenAt, images: Arc<dyn Offered>) -> Result<(), String> {
        let mut state = self.state.lock();
        if state.threads.is_empty() {
            let threads: Result<Vec<_>, String> = (0..self.cores).map(start_thread).collect();
            state.threads = threads?;
        }
        let listener = match at {
            ListenAt::Socket(path) => Listener::unix(path),
            ListenAt::Address(address) => Listener::tcp(*address),
        };
        let listener = listener.map_err(|error| error.to_string())?;
        let server = NbdServer::new(Arc::new(PlaceExports(images)), NbdConfig::default());
        let stop = watch::Sender::new(Stop::Run);
        let mut ended = Vec::new();
        for thread in &state.threads {
            let listener = listener.try_clone().map_err(|error| error.to_string())?;
            let (tell, told) = oneshot::channel();
            let job = Job { server: server.clone(), listener, stop: stop.subscribe(), ended: tell };
            thread.try_send(job).map_err(|_| "too many places are being opened: try again in a moment".to_owned())?;
            ended.push(told);
        }
        state.open.insert(at.clone(), Open { server, stop, ended });
        Ok(())
    }
}

impl Door for NbdDoor {
    fn open(&self, at: &ListenAt, images: Arc<dyn Offered>) -> Result<(), String> {
        self.try_open(at, images)
    }

    fn close<'a>(&'a self, at: &'a ListenAt, for_good: bool) -> BoxFuture<'a, ()> {
        let open = self.state.lock().open.remove(at);
        Box::pin(async move {
            let Some(Open { stop, ended, .. }) = open else { return };
            stop.send_replace(if for_good { Stop::End } else { Stop::Restart });
            for ended in ended {
                // A thread that is gone has ended its part.
                drop(ended.await);
            }
        })
    }

    fn clients(&self, at: &ListenAt) -> u64 {
        self.state.lock().open.get(at).map_or(0, |open| open.server.connection_count() as u64)
    }
}

/// A thread that serves its part of each place until the door is gone.
fn start_thread(number: usize) -> Result<mpsc::Sender<Job>, String> {
    let (sender, mut jobs) = mpsc::channel::<Job>(MAX_WAITING);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let run = move || {
        env::set_core_index(number);
        runtime.block_on(async move {
            let _ring = disk::install_ring().ok();
            while let Some(Job { server, listener, stop, ended }) = jobs.recv().await {
                tokio::spawn(async move {
                    if let Err(error) = server.serve(listener, stop).await {
                        tracing::error!(%error, "a listener for NBD has failed");
                    }
                    // The door may be gone.
                    ended.send(()).ok();
                });
            }
        });
    };
    std::thread::Builder::new().name(format!("nbd-{number}")).spawn(run).map_err(|error| error.to_string())?;
    Ok(sender)
}
