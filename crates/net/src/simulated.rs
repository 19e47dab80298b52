//! The network's twin in memory: connections within one process, which a test can cut, slow down and corrupt.
//!
//! Each connection has a pump that carries bytes from one end to the other. Cutting an address stops its pumps, so both ends see their connection
//! break; until it is mended nobody connects.
//!
//! Links have a direction, and weather of their own ([`LinkWeather`]): whoever connects by [`SimulatedNetwork::at`] is known by a name. A link
//! that is cut swallows nothing: as with TCP, what is on its way arrives when the link is back, unless the connection has been given up.

use crate::call::BoxFuture;
use crate::network::{ByteStream, Listener, Network};
use bytes::BytesMut;
use env::Env;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};

/// Bytes that one direction of a connection holds.
const PIPE_BYTES: usize = 64 * 1024;
/// Room for what is read at once, to begin with.
const FIRST_READ_BYTES: usize = 4 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: usize = 64;

/// A network in memory. Clones are the same network.
#[derive(Clone)]
pub struct SimulatedNetwork {
    env: Env,
    addresses: Arc<Mutex<HashMap<String, Address>>>,
    links: Arc<Links>,
    /// Who connects by this handle; nobody in particular if empty.
    here: String,
}

/// What happens to bytes on the way from one address to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkWeather {
    /// Nothing arrives, and nothing is told to anybody.
    pub is_cut: bool,
    /// Each piece is late by a time up to this.
    pub longest_delay: Duration,
    /// Pieces, in a million, with which their connection breaks: what is on its way is lost, in both directions.
    pub breaks_per_million: u32,
}

#[derive(Default)]
struct Links {
    state: Mutex<LinkStates>,
    changed: Notify,
}

#[derive(Default)]
struct LinkStates {
    /// Of all links that have none of their own.
    weather: LinkWeather,
    by_ends: BTreeMap<(String, String), LinkWeather>,
}

impl Links {
    fn weather(&self, from: &str, to: &str) -> LinkWeather {
        let state = self.state.lock();
        // Most have none of their own, and looking for them costs two strings.
        if state.by_ends.is_empty() {
            return state.weather;
        }
        state.by_ends.get(&(from.to_owned(), to.to_owned())).copied().unwrap_or(state.weather)
    }

    async fn until_not_cut(&self, from: &str, to: &str) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !self.weather(from, to).is_cut {
                return;
            }
            changed.await;
        }
    }

    fn change(&self, change: impl FnOnce(&mut LinkStates)) {
        change(&mut self.state.lock());
        self.changed.notify_waiters();
    }
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
        SimulatedNetwork { env: env.clone(), addresses: Arc::default(), links: Arc::default(), here: String::new() }
    }

    /// The network as it is seen from an address: connections that are made by this handle are on its links.
    pub fn at(&self, address: &str) -> SimulatedNetwork {
        SimulatedNetwork { here: address.to_owned(), ..self.clone() }
    }

    /// The weather of all links that have none of their own.
    pub fn set_weather(&self, weather: LinkWeather) {
        self.links.change(|links| links.weather = weather);
    }

    /// The weather of one direction.
    pub fn set_link(&self, from: &str, to: &str, weather: LinkWeather) {
        let ends = (from.to_owned(), to.to_owned());
        self.links.change(|links| {
            links.by_ends.insert(ends, weather);
        });
    }

    /// All links have the common weather again.
    pub fn clear_links(&self) {
        self.links.change(|links| links.by_ends.clear());
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
        let way = Way { env: self.env.clone(), links: self.links.clone(), weather: state.weather.clone() };
        let pump = pump_both(way, (near_pipe, self.here.clone()), (far_pipe, address.to_owned()));
        state.pumps.retain(|pump| !pump.is_finished());
        state.pumps.push(self.env.spawn(pump).abort_handle());
        Ok(Box::new(near))
    }
}

impl Network for SimulatedNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            // A greeting and its answer.
            self.links.until_not_cut(&self.here, address).await;
            self.links.until_not_cut(address, &self.here).await;
            self.connect_now(address)
        })
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

/// What both directions of a connection have in common.
struct Way {
    env: Env,
    links: Arc<Links>,
    weather: Arc<Mutex<Weather>>,
}

async fn pump_both(way: Way, (near, near_name): (DuplexStream, String), (far, far_name): (DuplexStream, String)) {
    let (near_read, near_write) = tokio::io::split(near);
    let (far_read, far_write) = tokio::io::split(far);
    // Either direction's end is the connection's end.
    tokio::select! {
        biased;
        _ = pump(&way, near_read, far_write, &near_name, &far_name) => {}
        _ = pump(&way, far_read, near_write, &far_name, &near_name) => {}
    }
}

async fn pump(
    way: &Way,
    mut from: ReadHalf<DuplexStream>,
    mut to: WriteHalf<DuplexStream>,
    from_name: &str,
    to_name: &str,
) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(FIRST_READ_BYTES);
    loop {
        let count = from.read_buf(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let delay = {
            let mut weather = way.weather.lock();
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
        let link = way.links.weather(from_name, to_name);
        if link.breaks_per_million > 0 && way.env.random_below(1_000_000) < u64::from(link.breaks_per_million) {
            return Ok(());
        }
        let longest = link.longest_delay.as_nanos() as u64;
        let own = if longest == 0 { 0 } else { way.env.random_below(longest + 1) };
        let delay = delay + Duration::from_nanos(own);
        if !delay.is_zero() {
            way.env.sleep(delay).await;
        }
        if link.is_cut || way.links.weather(from_name, to_name).is_cut {
            way.links.until_not_cut(from_name, to_name).await;
        }
        to.write_all(&buffer).await?;
        buffer.clear();
        if count == buffer.capacity() {
            buffer.reserve((2 * count).min(PIPE_BYTES));
        }
    }
}
