//! The network's twin in memory: connections within one process, which a test can cut, slow down and corrupt.
//!
//! Each connection has a pump that carries bytes from one end to the other. Cutting an address stops its pumps, so both ends see their connection
//! break; until it is mended nobody connects.

use crate::call::BoxFuture;
use crate::network::{ByteStream, Listener, Network};
use env::Env;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

/// Bytes that one direction of a connection holds.
const PIPE_BYTES: usize = 64 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: usize = 64;

/// A network in memory. Clones are the same network.
#[derive(Clone)]
pub struct SimulatedNetwork {
    env: Env,
    addresses: Arc<Mutex<HashMap<String, Address>>>,
}

#[derive(Default)]
struct Address {
    listener: Option<mpsc::Sender<Box<dyn ByteStream>>>,
    pumps: Vec<tokio::task::AbortHandle>,
    is_cut: bool,
    weather: Arc<Mutex<Weather>>,
}

/// What happens to bytes on their way.
#[derive(Default)]
struct Weather {
    delay: Duration,
    /// Bytes until one is corrupted.
    corrupt_after: Option<usize>,
}

impl SimulatedNetwork {
    pub fn new(env: &Env) -> Self {
        SimulatedNetwork { env: env.clone(), addresses: Arc::default() }
    }

    /// Breaks all connections to an address and refuses new ones.
    pub fn cut(&self, address: &str) {
        let mut addresses = self.addresses.lock();
        let state = addresses.entry(address.to_owned()).or_default();
        state.is_cut = true;
        state.pumps.drain(..).for_each(|pump| pump.abort());
    }

    /// Breaks all connections to an address; new ones can be made.
    pub fn interrupt(&self, address: &str) {
        self.cut(address);
        self.mend(address);
    }

    /// Lets connections be made again.
    pub fn mend(&self, address: &str) {
        self.addresses.lock().entry(address.to_owned()).or_default().is_cut = false;
    }

    /// Delays everything to and from an address.
    pub fn delay(&self, address: &str, delay: Duration) {
        self.addresses.lock().entry(address.to_owned()).or_default().weather.lock().delay = delay;
    }

    /// Flips a bit of the byte that comes after this many more, to or from an address.
    pub fn corrupt_after(&self, address: &str, bytes: usize) {
        self.addresses.lock().entry(address.to_owned()).or_default().weather.lock().corrupt_after = Some(bytes);
    }

    fn connect_now(&self, address: &str) -> io::Result<Box<dyn ByteStream>> {
        let mut addresses = self.addresses.lock();
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let state = addresses.get_mut(address).filter(|state| !state.is_cut).ok_or_else(refused)?;
        let listener = state.listener.as_ref().ok_or_else(refused)?;
        let (near, near_pipe) = tokio::io::duplex(PIPE_BYTES);
        let (far, far_pipe) = tokio::io::duplex(PIPE_BYTES);
        listener.try_send(Box::new(far)).map_err(|_| refused())?;
        let pump = pump_both(self.env.clone(), near_pipe, far_pipe, state.weather.clone());
        state.pumps.retain(|pump| !pump.is_finished());
        state.pumps.push(self.env.spawn(pump).abort_handle());
        Ok(Box::new(near))
    }
}

impl Network for SimulatedNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move { self.connect_now(address) })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let (sender, connections) = mpsc::channel(BACKLOG);
            let mut addresses = self.addresses.lock();
            let state = addresses.entry(address.to_owned()).or_default();
            if state.listener.as_ref().is_some_and(|listener| !listener.is_closed()) {
                return Err(io::Error::from(io::ErrorKind::AddrInUse));
            }
            state.listener = Some(sender);
            let listener: Box<dyn Listener> = Box::new(BoundName { address: address.to_owned(), connections });
            Ok(listener)
        })
    }
}

struct BoundName {
    address: String,
    connections: mpsc::Receiver<Box<dyn ByteStream>>,
}

impl Listener for BoundName {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let next = self.connections.recv().await;
            next.ok_or_else(|| io::Error::other("the simulated network is gone"))
        })
    }
}

async fn pump_both(env: Env, near: DuplexStream, far: DuplexStream, weather: Arc<Mutex<Weather>>) {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    // Either direction's end is the connection's end.
    tokio::select! {
        _ = pump(&env, near_read, far_write, &weather) => {}
        _ = pump(&env, far_read, near_write, &weather) => {}
    }
}

async fn pump(
    env: &Env,
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    weather: &Mutex<Weather>,
) -> io::Result<()> {
    let mut buffer = vec![0; PIPE_BYTES];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let delay = {
            let mut weather = weather.lock();
            match weather.corrupt_after {
                Some(after) if after < count => {
                    buffer[after] ^= 0x10;
                    weather.corrupt_after = None;
                }
                Some(after) => weather.corrupt_after = Some(after - count),
                None => {}
            }
            weather.delay
        };
        if !delay.is_zero() {
            env.sleep(delay).await;
        }
        to.write_all(&buffer[..count]).await?;
    }
}
