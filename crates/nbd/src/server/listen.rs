//! Listening sockets.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::limits::{ACCEPT_BACKLOG, KEEPALIVE_AFTER, KEEPALIVE_INTERVAL, KEEPALIVE_RETRIES};

/// Only the owner may connect to a Unix socket.
const SOCKET_MODE: u32 = 0o600;

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("another program listens on {place}: stop it, or choose another place")]
    InUse { place: String },
    #[error("{} exists and is not a socket: remove it, or choose another path", path.display())]
    NotASocket { path: PathBuf },
    #[error("cannot listen on {place}: {cause}")]
    Bind { place: String, cause: io::Error },
}

/// A socket that listens. Copies of it may be served on several cores.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// Of a Unix socket.
    file: Option<Arc<SocketFile>>,
}

/// Removes the file of a Unix socket with its last listener.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Listener {
    /// Listens on a path. A socket that a former server has left there is replaced.
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        let place = path.display().to_string();
        remove_stale(path)?;
        let fail = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { place: place.clone() },
            _ => ListenError::Bind { place: place.clone(), cause },
        };
        let bind = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.bind(&SockAddr::unix(path)?)?;
            let metadata = fs::symlink_metadata(path)?;
            let file = SocketFile { path: path.to_owned(), device: metadata.dev(), inode: metadata.ino() };
            // Nobody can connect before it listens, so the mode is in force first.
            fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
            listening(&socket)?;
            Ok(Listener { socket, file: Some(Arc::new(file)) })
        };
        bind().map_err(fail)
    }

    /// Listens on an address; port 0 chooses a free port.
    pub fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let fail = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AddrInUse => ListenError::InUse { place: address.to_string() },
            _ => ListenError::Bind { place: address.to_string(), cause },
        };
        let bind = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            // Without it, connections of a server that has just ended would block the port for a minute.
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            listening(&socket)?;
            Ok(Listener { socket, file: None })
        };
        bind().map_err(fail)
    }

    /// The address in use; none of a Unix socket.
    pub fn address(&self) -> io::Result<Option<SocketAddr>> {
        Ok(self.socket.local_addr()?.as_socket())
    }

    /// The same socket for another core.
    pub fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener { socket: self.socket.try_clone()?, file: self.file.clone() })
    }

    pub(super) fn into_acceptor(self) -> io::Result<Acceptor> {
        Ok(match self.file {
            Some(file) => Acceptor::Unix(UnixListener::from_std(self.socket.into())?, file),
            None => Acceptor::Tcp(TcpListener::from_std(self.socket.into())?),
        })
    }
}

/// A listener of the present runtime.
pub(super) enum Acceptor {
    Unix(UnixListener, #[expect(dead_code, reason = "removes the file when it is dropped")] Arc<SocketFile>),
    Tcp(TcpListener),
}

/// A connection that has come.
pub(super) enum Accepted {
    Unix(tokio::net::UnixStream),
    Tcp(TcpStream),
}

impl Acceptor {
    pub async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Acceptor::Unix(listener, _) => Ok(Accepted::Unix(listener.accept().await?.0)),
            Acceptor::Tcp(listener) => {
                let (socket, _) = listener.accept().await?;
                prepare(&socket)?;
                Ok(Accepted::Tcp(socket))
            }
        }
    }
}

/// No delay for small replies; and a client whose machine is gone is noticed, whether or not there is something to send.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL).with_retries(KEEPALIVE_RETRIES);
    let socket = SockRef::from(socket);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(KEEPALIVE_AFTER + KEEPALIVE_INTERVAL * KEEPALIVE_RETRIES))
}

fn listening(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.listen(ACCEPT_BACKLOG)
}

/// Two servers that start on one path in the same instant could both find it stale; the later one then has it.
fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let fail = |cause: io::Error| ListenError::Bind { place: path.display().to_string(), cause };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(ListenError::NotASocket { path: path.to_owned() }),
        Ok(_) => {}
    }
    // Without waiting: a program whose queue of connections is full would keep this one for ever.
    let connect = || {
        let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        probe.set_nonblocking(true)?;
        probe.connect(&SockAddr::unix(path)?)
    };
    match connect() {
        Ok(()) => Err(ListenError::InUse { place: path.display().to_string() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(fail),
        // A full queue of connections, for example: someone listens.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ListenError::InUse { place: path.display().to_string() })
        }
        Err(error) => Err(fail(error)),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A later server may have put its own socket there.
        let is_ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

#[cfg(test)]
mod tests;
