//! Listening sockets: one per core on the same port.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::ACCEPT_BACKLOG;

/// Why the S3 port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("another program listens on {address}: stop it, or choose another address with --s3-addr or TRILITH_S3_ADDR")]
    InUse { address: SocketAddr },
    #[error("cannot listen on {address}: {cause}")]
    Bind { address: SocketAddr, cause: io::Error },
}

/// Binds `address` once per core. Port 0 chooses a free port; the address in use is returned.
///
/// SO_REUSEPORT lets the kernel spread connections over the sockets, and would also let a second server share the port in
/// silence; so the address is first bound without it, which fails while anybody listens there. The probe is released before
/// the real sockets are bound: two servers that start in the same instant could both pass, which the lock on the data
/// prevents for servers of the same data.
pub fn listen(address: SocketAddr, cores: usize) -> Result<(Vec<TcpListener>, SocketAddr), ListenError> {
    let fail = |cause: io::Error| match cause.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { address },
        _ => ListenError::Bind { address, cause },
    };
    let bound = probe(address).map_err(fail)?;
    let mut listeners = Vec::with_capacity(cores);
    for _ in 0..cores {
        listeners.push(open(bound).map_err(fail)?);
    }
    Ok((listeners, bound))
}

fn probe(address: SocketAddr) -> io::Result<SocketAddr> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it, connections of a server that has just ended would block the port for a minute.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    // Linux lets two sockets with SO_REUSEADDR bind the same port until one of them listens.
    socket.listen(1)?;
    socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an internet address"))
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(ACCEPT_BACKLOG)?;
    Ok(socket.into())
}
