//! Mounting by `fusermount3`, the set-user-id helper of libfuse.
//!
//! It mounts and sends the descriptor over a socket that it inherits: here as its standard input, which needs no code between fork and
//! exec.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{MountError, MountOptions};
use crate::device::Device;
use crate::handover::receive_descriptors;

const PROGRAM: &str = "fusermount3";

/// Names the inherited socket.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";

/// Mounting is a matter of milliseconds, unless the directories above the mount point hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is kept of its messages.
const MAX_MESSAGE_BYTES: u64 = 4096;

pub(super) fn mount(point: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let failed = |error: std::io::Error| MountError::Fusermount { message: error.to_string() };
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut child = Command::new(PROGRAM)
        .arg("-o")
        .arg(option_list(options))
        .arg("--")
        .arg(point)
        .env(SOCKET_VARIABLE, "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoFusermount)?;
    let mut byte = [0];
    // The socket closes when the helper ends without a descriptor.
    let received = receive_descriptors(&ours, &mut byte);
    match received.map(|(_, descriptors)| descriptors.into_iter().next()) {
        Ok(Some(descriptor)) => {
            child.wait().map_err(failed)?;
            Ok(descriptor.into())
        }
        Ok(None) => Err(MountError::Fusermount { message: message_of(&mut child) }),
        Err(errno) => {
            // A helper that hangs in a directory above is left to the kernel: it may not take the signal either.
            let killed = child.kill().map_or_else(|error| format!(" and could not be ended ({error})"), |()| String::new());
            Err(MountError::Fusermount { message: format!("it sent no descriptor within {PATIENCE:?} ({errno}){killed}") })
        }
    }
}

fn option_list(options: &MountOptions) -> String {
    let mut list = options.common();
    list.push(format!("fsname={}", options.source));
    list.push(format!("subtype={}", options.subtype));
    list.extend(options.read_only.then(|| "ro".to_owned()));
    list.push(if options.nosuid { "nosuid" } else { "suid" }.to_owned());
    list.push(if options.nodev { "nodev" } else { "dev" }.to_owned());
    list.join(",")
}

fn message_of(child: &mut Child) -> String {
    let mut message = String::new();
    if let Some(stderr) = child.stderr.take() {
        // What is no text is told by the status below.
        if stderr.take(MAX_MESSAGE_BYTES).read_to_string(&mut message).is_err() {
            message.clear();
        }
    }
    match child.wait() {
        Ok(status) => format!("{} ({status})", message.trim()),
        Err(error) => format!("{} ({error})", message.trim()),
    }
}
