//! The network of a node that only this machine reaches: socket files in its folder, and no port.
//!
//! ```text
//!   this-machine          node.sock            the node
//!   this-machine/NAME     client-NAME.sock     a program beside it that the node calls back
//! ```

use crate::call::BoxFuture;
use crate::network::{ByteStream, Listener, Network};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// The address of the node in such a network.
pub const LONE_ADDRESS: &str = "this-machine";

/// The node's socket in its folder.
const NODE_SOCKET: &str = "node.sock";
/// Longest name of a program beside the node.
const MAX_NAME_BYTES: usize = 32;
/// Permissions of the socket: only the owner of the folder connects.
const OWNER_ONLY: u32 = 0o600;

/// Connects processes of this machine that can read one folder.
///
/// The folder is locked by its node: a socket that is there already belongs to a process that has ended, and is replaced.
pub struct UnixNetwork {
    folder: PathBuf,
}

impl UnixNetwork {
    /// The network of the node whose data is in `folder`.
    pub fn new(folder: &Path) -> UnixNetwork {
        UnixNetwork { folder: folder.to_owned() }
    }

    /// The address at which a program beside the node listens. `name` has letters and digits only, and is its own.
    pub fn address_of(name: &str) -> String {
        format!("{LONE_ADDRESS}/{name}")
    }

    /// Does something with the path of an address's socket. The system limits such a path to 107 bytes, so it leads through an open
    /// descriptor of the folder.
    fn with_path<T>(&self, address: &str, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let socket = socket_of(address)?;
        let folder = File::open(&self.folder)?;
        act(&PathBuf::from(format!("/proc/self/fd/{}/{socket}", folder.as_raw_fd())))
    }
}

/// The name of an address's socket.
fn socket_of(address: &str) -> io::Result<String> {
    let is_name =
        |name: &str| (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match address.strip_prefix(LONE_ADDRESS).map(|rest| rest.strip_prefix('/').ok_or(rest)) {
        Some(Err("")) => Ok(NODE_SOCKET.to_owned()),
        Some(Ok(name)) if is_name(name) => Ok(format!("client-{name}.sock")),
        _ => Err(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            format!("this node is reached from its own machine only, and reaches nothing else: {address} is elsewhere"),
        )),
    }
}

impl Network for UnixNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let stream = self.with_path(address, |path| std::os::unix::net::UnixStream::connect(path))?;
            stream.set_nonblocking(true)?;
            let stream: Box<dyn ByteStream> = Box::new(UnixStream::from_std(stream)?);
            Ok(stream)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = self.with_path(address, |path| {
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                std::fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))?;
                Ok(listener)
            })?;
            listener.set_nonblocking(true)?;
            let path = self.folder.join(socket_of(address)?);
            let bound = BoundSocket { listener: UnixListener::from_std(listener)?, address: address.to_owned(), path };
            let listener: Box<dyn Listener> = Box::new(bound);
            Ok(listener)
        })
    }
}

struct BoundSocket {
    listener: UnixListener,
    address: String,
    path: PathBuf,
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        // A socket that stays is replaced by the next listener at this address.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a socket stays behind");
        }
    }
}

impl Listener for BoundSocket {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let stream: Box<dyn ByteStream> = Box::new(self.listener.accept().await?.0);
            Ok(stream)
        })
    }
}

impl ByteStream for UnixStream {}

#[cfg(test)]
mod tests;
