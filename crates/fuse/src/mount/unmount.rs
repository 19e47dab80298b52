//! Unmounting, of mounts that answer and of mounts that don't.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::table::connection_of;

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// How a mount ends. None of these asks the process that serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Fails with EBUSY while the mount is in use.
    Clean,
    /// Takes the mount out of the tree now; it ends when nothing uses it any more.
    Detach,
    /// Ends all calls on it with an error, and takes it out of the tree: for mounts that have stalled.
    Abort,
}

/// Why a mount is still there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmountError {
    #[error("{} is in use: close what is open there, or detach or abort the mount", point.display())]
    Busy { point: PathBuf },
    #[error("{} is not mounted", point.display())]
    NotMounted { point: PathBuf },
    #[error("{} could not be unmounted: {why}", point.display())]
    Failed { point: PathBuf, why: String },
}

/// Unmounts `point`, a path without symbolic links.
pub fn unmount(point: &Path, how: Unmount) -> Result<(), UnmountError> {
    if how == Unmount::Abort && abort(point)? == Aborted::AndUnmounted {
        return Ok(());
    }
    let detach = how != Unmount::Clean;
    let flags = if detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => by_fusermount(point, detach),
        Err(Errno::BUSY) => Err(UnmountError::Busy { point: point.to_owned() }),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted { point: point.to_owned() }),
        Err(errno) => Err(UnmountError::Failed { point: point.to_owned(), why: errno.to_string() }),
        Ok(()) => Ok(()),
    }
}

/// Whether a FUSE mount lies on `point`, a path without symbolic links. The mount is not asked: it may have stalled.
pub fn is_mounted(point: &Path) -> std::io::Result<bool> {
    Ok(connection(point)?.is_some())
}

/// The number of the connection of the FUSE mount on `point`, if there is one.
pub(super) fn connection(point: &Path) -> std::io::Result<Option<u32>> {
    Ok(connection_of(&fs::read(MOUNTINFO)?, point))
}

#[derive(PartialEq, Eq)]
enum Aborted {
    StillMounted,
    AndUnmounted,
}

/// Ends the connection: by the kernel's control files, which the user that mounted may write, or else by a forced unmount.
fn abort(point: &Path) -> Result<Aborted, UnmountError> {
    let failed = |why| UnmountError::Failed { point: point.to_owned(), why };
    let found = connection(point).map_err(|error| failed(format!("{MOUNTINFO}: {error}")))?;
    let connection = found.ok_or_else(|| UnmountError::NotMounted { point: point.to_owned() })?;
    let control = format!("/sys/fs/fuse/connections/{connection}/abort");
    match fs::write(&control, "1") {
        Ok(()) => Ok(Aborted::StillMounted),
        // The forced unmount aborts first. It says EBUSY where the mount is in use, which the detaching deals with.
        Err(error) => match rustix::mount::unmount(point, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(Aborted::AndUnmounted),
            Err(Errno::BUSY) => Ok(Aborted::StillMounted),
            Err(errno) => Err(failed(format!("{control}: {error}; forced unmount: {errno}"))),
        },
    }
}

fn by_fusermount(point: &Path, detach: bool) -> Result<(), UnmountError> {
    let failed = |why: String| UnmountError::Failed { point: point.to_owned(), why };
    let mut command = Command::new("fusermount3");
    command.arg("-u").args(detach.then_some("-z")).arg("--").arg(point);
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(format!("fusermount3: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if message.contains("busy") {
        return Err(UnmountError::Busy { point: point.to_owned() });
    }
    Err(failed(message))
}
