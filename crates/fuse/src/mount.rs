//! Mounting, unmounting, and a mount's descriptors.
//!
//! | caller | way |
//! |---|---|
//! | root | mount(2) |
//! | another user, or root in a container that may not mount | `fusermount3`, which passes the descriptor back over a socket |
//!
//! `default_permissions` is always set: the kernel checks modes and ACLs, and the file system does not.

mod fusermount;
mod table;
mod unmount;

pub use unmount::{Unmount, UnmountError, is_mounted, unmount};

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::abi::init::HAS_RESEND;
use crate::device::Device;
use crate::handover::{Handover, HandoverError};
use crate::init::Negotiated;

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// What `/proc/mounts` and `df` show as the source.
    pub source: String,
    /// The type is `fuse.` and this.
    pub subtype: String,
    /// Users other than the one that mounts may use it. Without root it takes `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    pub read_only: bool,
    /// Set-user-id programs run without it. Without root it is always set.
    pub nosuid: bool,
    /// Device files can't be opened. Without root it is always set.
    pub nodev: bool,
    /// The longest READ, where it is to be shorter than the longest WRITE.
    pub max_read_bytes: Option<u32>,
}

impl Default for MountOptions {
    fn default() -> Self {
        MountOptions {
            source: "trilith".to_owned(),
            subtype: "trilith".to_owned(),
            allow_other: false,
            read_only: false,
            nosuid: true,
            nodev: true,
            max_read_bytes: None,
        }
    }
}

/// Why nothing was mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("{} can't be a mount point ({source}): create the directory, or unmount what was left there", point.display())]
    Point { point: PathBuf, source: std::io::Error },
    #[error("{} is no directory", point.display())]
    NotADirectory { point: PathBuf },
    #[error(
        "{value:?} can't be the {what} of a mount: use letters, digits and plain punctuation without commas and backslashes"
    )]
    Name { what: &'static str, value: String },
    #[error("/dev/fuse can't be opened ({0}): load the kernel's module `fuse`, or pass the device into the container")]
    Device(Errno),
    #[error("mounting on {} failed: {errno}", point.display())]
    Mount { point: PathBuf, errno: Errno },
    #[error("mounting needs root or `fusermount3`, which does not start ({0}): install the package fuse3")]
    NoFusermount(std::io::Error),
    #[error("fusermount3 failed: {message}")]
    Fusermount { message: String },
}

/// A mounted file system, seen from the side that serves it.
///
/// Dropping it closes its descriptors; when the last descriptor of all processes is closed, calls on the mount fail with ENOTCONN until it is
/// unmounted.
#[derive(Debug)]
pub struct Mount {
    pub(crate) devices: Vec<Device>,
    pub(crate) point: PathBuf,
    /// None until the kernel's INIT is answered.
    pub(crate) negotiated: Option<Negotiated>,
}

impl Mount {
    /// Mounts on `point`, an existing directory.
    pub fn new(point: &Path, options: &MountOptions) -> Result<Self, MountError> {
        options.check()?;
        let failed = |source| MountError::Point { point: point.to_owned(), source };
        let point = point.canonicalize().map_err(failed)?;
        if !point.metadata().map_err(failed)?.is_dir() {
            return Err(MountError::NotADirectory { point });
        }
        let device = if rustix::process::geteuid().is_root() {
            match mount_directly(&point, options) {
                Err(MountError::Mount { errno: Errno::PERM, .. }) => fusermount::mount(&point, options)?,
                other => other?,
            }
        } else {
            fusermount::mount(&point, options)?
        };
        Ok(Mount { devices: vec![device], point, negotiated: None })
    }

    /// A mount that another process mounted and whose INIT it answered.
    ///
    /// A session that starts on it has all unanswered requests sent again, so the other process must not serve it any more.
    pub fn from_descriptors(descriptors: Vec<OwnedFd>, negotiated: Negotiated, point: PathBuf) -> Self {
        Mount { devices: descriptors.into_iter().map(Device::from).collect(), point, negotiated: Some(negotiated) }
    }

    /// Has the kernel read so far ahead of programs that read in sequence: INIT can only lower what it does by itself, 128 KiB.
    pub(crate) fn raise_readahead(&self, bytes: u32) {
        self.set("read_ahead_kb", bytes >> 10);
    }

    /// Has the kernel buffer so many hundredths of what it buffers for all file systems together. By itself it is one.
    pub(crate) fn raise_buffered(&self, percent: u32) {
        self.set("max_ratio", percent);
    }

    /// A caller that is not root can't.
    fn set(&self, what: &str, value: u32) {
        let Ok(Some(connection)) = unmount::connection(&self.point) else { return };
        let setting = format!("/sys/class/bdi/0:{connection}/{what}");
        if let Err(error) = std::fs::write(&setting, value.to_string()) {
            tracing::debug!(%error, setting, "the kernel goes by its own setting");
        }
    }

    /// Where it is mounted, without symbolic links.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Whether another process can go on with it. False too while INIT is not answered.
    pub fn can_be_taken_over(&self) -> bool {
        self.negotiated.is_some_and(|negotiated| negotiated.has(HAS_RESEND))
    }

    /// Whether it was unmounted or aborted.
    pub fn is_over(&self) -> bool {
        self.devices.first().is_none_or(|device| device.wait_readable(Duration::ZERO).is_err())
    }

    /// The same mount under other descriptors.
    pub fn try_clone(&self) -> Result<Self, Errno> {
        let devices = self.devices.iter().map(Device::duplicate).collect::<Result<_, _>>()?;
        Ok(Mount { devices, point: self.point.clone(), negotiated: self.negotiated })
    }

    /// Passes the mount's descriptors to the process at the other end of a unix socket, which calls [`Mount::receive`].
    ///
    /// While either process holds them, unanswered requests stay with the kernel.
    pub fn send(&self, socket: impl AsFd) -> Result<(), HandoverError> {
        let negotiated = self.negotiated.ok_or(HandoverError::NotNegotiated)?;
        let descriptors = self.devices.iter().map(AsFd::as_fd).collect();
        Handover { descriptors, negotiated, point: self.point.clone() }.send(socket)
    }

    /// Takes what [`Mount::send`] sent. It waits for the message; set the socket's timeout for a limit.
    pub fn receive(socket: impl AsFd) -> Result<Self, HandoverError> {
        let Handover { descriptors, negotiated, point } = Handover::receive(socket)?;
        Ok(Mount::from_descriptors(descriptors, negotiated, point))
    }

    /// Unmounts; see [`unmount`].
    pub fn unmount(&self, how: Unmount) -> Result<(), UnmountError> {
        unmount(&self.point, how)
    }
}

impl MountOptions {
    /// Names go into a list of options that knows no quoting that all tools agree on.
    fn check(&self) -> Result<(), MountError> {
        for (what, value) in [("source", &self.source), ("subtype", &self.subtype)] {
            let plain = |c: char| !c.is_control() && c != ',' && c != '\\';
            if value.is_empty() || !value.chars().all(plain) {
                return Err(MountError::Name { what, value: value.clone() });
            }
        }
        Ok(())
    }

    /// What both ways pass to the kernel beside the descriptor.
    fn common(&self) -> Vec<String> {
        let mut options = vec!["default_permissions".to_owned()];
        options.extend(self.allow_other.then(|| "allow_other".to_owned()));
        options.extend(self.max_read_bytes.map(|bytes| format!("max_read={bytes}")));
        options
    }

    fn flags(&self) -> MountFlags {
        let marks = [(self.nosuid, MountFlags::NOSUID), (self.nodev, MountFlags::NODEV), (self.read_only, MountFlags::RDONLY)];
        marks.into_iter().filter(|(set, _)| *set).fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
    }
}

/// Makes the mount on `point`, a path without symbolic links, read-only or writable, for as long as it is there. It stays nosuid and nodev.
/// EBUSY: something is open for writing. The process that serves it is not asked.
pub fn remount(point: &Path, read_only: bool) -> Result<(), Errno> {
    let options = MountOptions { read_only, ..MountOptions::default() };
    rustix::mount::mount_remount(point, options.flags(), "")
}

fn mount_directly(point: &Path, options: &MountOptions) -> Result<Device, MountError> {
    let device = Device::open().map_err(MountError::Device)?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = vec![format!("fd={},rootmode=40000,user_id={user},group_id={group}", device.as_fd().as_raw_fd())];
    data.extend(options.common());
    let data = CString::new(data.join(",")).expect("numbers and fixed words have no NUL");
    let kind = format!("fuse.{}", options.subtype);
    match rustix::mount::mount(options.source.as_str(), point, kind.as_str(), options.flags(), data.as_c_str()) {
        Ok(()) => Ok(device),
        Err(errno) => Err(MountError::Mount { point: point.to_owned(), errno }),
    }
}

#[cfg(test)]
mod tests;
