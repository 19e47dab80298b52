//! The seam to the network: byte streams between addresses.

use crate::call::BoxFuture;
use crate::hello::Identity;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

/// How long nothing may come on a connection before the kernel asks whether the peer is there; it asks for as long again.
const PEER_IDLE: Duration = Duration::from_secs(15);

/// A connection: bytes in order in both directions, until it breaks.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Whom the peer's certificate names, where there is one.
    fn certified(&self) -> Option<Identity> {
        None
    }

    /// The addresses of its two ends, as this one sees them, where it has such.
    fn ends(&self) -> Option<Ends> {
        None
    }
}

/// The ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub own: SocketAddr,
    pub peer: SocketAddr,
}

impl ByteStream for TcpStream {
    fn ends(&self) -> Option<Ends> {
        Some(Ends { own: self.local_addr().ok()?, peer: self.peer_addr().ok()? })
    }
}
impl ByteStream for DuplexStream {}

/// Where connections come from.
pub trait Network: Send + Sync + 'static {
    /// Connects to `address`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>>;

    /// Takes `address` for this process.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// An address that others can connect to.
pub trait Listener: Send {
    /// The address, with the port that was chosen if port 0 was asked for.
    fn address(&self) -> String;

    /// The next connection.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>>;
}

/// The operating system's TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpNetwork;

impl Network for TcpNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move { boxed(TcpStream::connect(address).await?) })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?.to_string();
            let listener: Box<dyn Listener> = Box::new(BoundTcp { listener, address });
            Ok(listener)
        })
    }
}

struct BoundTcp {
    listener: TcpListener,
    address: String,
}

impl Listener for BoundTcp {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move { boxed(self.listener.accept().await?.0) })
    }
}

/// Small frames must not wait for the acknowledgement of earlier ones. A peer that lost its power, or cannot be reached any more, says
/// nothing: the kernel asks for it, and ends the connection, which would count among those that a server may have for ever.
fn boxed(stream: TcpStream) -> io::Result<Box<dyn ByteStream>> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let asking = TcpKeepalive::new().with_time(PEER_IDLE).with_interval(PEER_IDLE / 3).with_retries(3);
    socket.set_tcp_keepalive(&asking)?;
    // Of what was sent and is not acknowledged.
    socket.set_tcp_user_timeout(Some(2 * PEER_IDLE))?;
    Ok(Box::new(stream))
}
