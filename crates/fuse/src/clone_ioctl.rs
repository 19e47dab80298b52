//! `FUSE_DEV_IOC_CLONE`, the one call of this crate that no library offers as a safe function.
#![allow(unsafe_code, reason = "an ioctl's argument is defined by its number only; this one reads a 32-bit descriptor")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `_IOR(229, 0, uint32_t)`.
const CLONE: Opcode = opcode::read::<u32>(229, 0);

/// Ties `new`, a freshly opened `/dev/fuse`, to the mount of `old`, with a queue of its own for requests that are being served.
pub fn clone_onto(new: impl AsFd, old: impl AsFd) -> Result<(), Errno> {
    let old = old.as_fd().as_raw_fd() as u32;
    // SAFETY: the kernel reads one u32 through the pointer and keeps no reference to it. The number names a descriptor that is
    // borrowed for the whole call; with any other it would fail with EBADF or EINVAL.
    unsafe { ioctl(new, Setter::<CLONE, u32>::new(old)) }
}
