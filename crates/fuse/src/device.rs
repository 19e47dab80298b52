//! One open `/dev/fuse`.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::OutHeader;
use crate::clone_ioctl::clone_onto;
use crate::reply::MAX_PARTS;

const PATH: &str = "/dev/fuse";

/// A descriptor. Requests that are read from it are answered on it.
#[derive(Debug)]
pub(crate) struct Device {
    descriptor: OwnedFd,
}

impl From<OwnedFd> for Device {
    fn from(descriptor: OwnedFd) -> Self {
        Device { descriptor }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Device {
    /// One that belongs to no mount yet.
    pub(crate) fn open() -> Result<Self, Errno> {
        Ok(rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?.into())
    }

    /// Another one of the same mount, with a queue of its own.
    pub(crate) fn clone_queue(&self) -> Result<Self, Errno> {
        let clone = Device::open()?;
        clone_onto(&clone, self)?;
        Ok(clone)
    }

    /// The same open file under another descriptor: while it is open, requests that are being served stay with the kernel.
    pub(crate) fn duplicate(&self) -> Result<Self, Errno> {
        Ok(rustix::io::fcntl_dupfd_cloexec(self, 0)?.into())
    }

    /// Sets what [`Device::open`] sets, for descriptors that others opened.
    pub(crate) fn set_nonblocking(&self) -> Result<(), Errno> {
        let flags = rustix::fs::fcntl_getfl(self)?;
        rustix::fs::fcntl_setfl(self, flags | OFlags::NONBLOCK)
    }

    /// Reads one request; EAGAIN where none is there.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(self, buffer)
    }

    /// Writes one message with its parts, whole.
    pub(crate) fn write(&self, header: &OutHeader, parts: &[&[u8]]) -> Result<(), Errno> {
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        slices[0] = IoSlice::new(header.as_bytes());
        let used = slices.get_mut(1..=parts.len()).ok_or(Errno::INVAL)?;
        for (slice, part) in used.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        rustix::io::writev(self, &slices[..=parts.len()]).map(drop)
    }

    /// Whether a request can be read within `patience`. An error says that the mount is gone.
    pub(crate) fn wait_readable(&self, patience: Duration) -> Result<bool, Errno> {
        let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        let mut waits = [PollFd::new(self, PollFlags::IN)];
        match poll(&mut waits, Some(&timeout)) {
            Err(Errno::INTR) => return Ok(false),
            other => other?,
        };
        let found = waits[0].revents();
        if found.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            return Err(Errno::NODEV);
        }
        Ok(found.contains(PollFlags::IN))
    }
}
