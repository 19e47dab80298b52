//! INIT: what the kernel offers, what is asked of it, and what both go by. A pure function of the two.
//!
//! | capability | |
//! |---|---|
//! | `BIG_WRITES`, `MAX_PAGES`, `ATOMIC_O_TRUNC`, `DONT_MASK`, `PARALLEL_DIROPS`, `HANDLE_KILLPRIV_V2`, `SETXATTR_EXT` | required: the handler's interface rests on them |
//! | `ASYNC_READ`, `ASYNC_DIO`, `ABORT_ERROR`, `CREATE_SUPP_GROUP`, `HAS_EXPIRE_ONLY`, `HAS_RESEND`, `INIT_EXT` | taken where they are offered |
//! | locks, ACL, export, readdirplus, the caches, mapped direct files, the time limit | as [`Capabilities`] says |
//! | `NO_OPEN_SUPPORT`, `NO_OPENDIR_SUPPORT`, `HAS_INODE_DAX` and all others | never: every open is told, and nothing is mapped |

use crate::abi::{self, InitOut, init};

/// What an INIT request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    /// Bits of [`abi::init`].
    pub flags: u64,
}

/// The largest `max_write_bytes`: 256 pages, which is what the kernel allows without a change of `fs.fuse.max_pages_limit`.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;

/// What the kernel counts request pages in. Kernels with larger pages round down.
const PAGE_BYTES: u32 = 4096;

/// When a listing of a directory brings the attributes of its entries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readdirplus {
    Never,
    /// When the kernel sees that they are used.
    Auto,
    Always,
}

/// What a file system wants of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// fcntl locks come as requests. Else the kernel keeps them, for this mount alone.
    pub posix_locks: bool,
    /// The same for flock.
    pub flock_locks: bool,
    /// The kernel checks `system.posix_acl_*`; the file system inherits them and keeps the mode in step.
    pub posix_acl: bool,
    /// LOOKUP of "." and "..", for handles of NFS servers.
    pub export: bool,
    pub readdirplus: Readdirplus,
    /// The kernel buffers writes, and its idea of size and mtime counts: only where no other mount writes.
    pub writeback_cache: bool,
    /// Cached pages are dropped by notifications only, not when size or mtime change.
    pub explicit_invalidation: bool,
    /// Targets of symbolic links stay in the page cache.
    pub cache_symlinks: bool,
    /// Files with direct I/O can be mapped, shared and writable.
    pub direct_io_mmap: bool,
    /// The longest WRITE and READ; at most [`MAX_WRITE_BYTES`], a multiple of 4096.
    pub max_write_bytes: u32,
    pub max_readahead_bytes: u32,
    /// Requests that no call waits for (read-ahead, write-back, asynchronous I/O) and that are under way at once.
    pub max_background: u16,
    /// The kernel aborts the mount when a request takes longer. It counts lock waits too, so it does not go with lock requests.
    pub request_timeout_s: Option<u16>,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities {
            posix_locks: false,
            flock_locks: false,
            posix_acl: true,
            export: true,
            readdirplus: Readdirplus::Auto,
            writeback_cache: false,
            explicit_invalidation: true,
            cache_symlinks: true,
            direct_io_mmap: true,
            max_write_bytes: MAX_WRITE_BYTES,
            max_readahead_bytes: MAX_WRITE_BYTES,
            max_background: 64,
            request_timeout_s: None,
        }
    }
}

/// What both sides go by from the reply to INIT on. A process that takes a mount over goes by it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    pub minor: u32,
    /// Bits of [`abi::init`].
    pub flags: u64,
    pub max_readahead_bytes: u32,
    pub max_write_bytes: u32,
    pub max_background: u16,
    pub request_timeout_s: u16,
}

/// Why a kernel's offer is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InitError {
    #[error("the kernel speaks FUSE {major}.{minor}; 7.33 (Linux 5.11) or later is needed")]
    TooOld { major: u32, minor: u32 },
    #[error("the kernel speaks FUSE {major}.{minor} and is to come back with major 7")]
    NewerMajor { major: u32, minor: u32 },
    #[error("the kernel does not offer {}, which a mount needs", missing.join(", "))]
    Missing { missing: Vec<&'static str> },
    #[error("{what}: choose {choose}")]
    Unfit { what: &'static str, choose: &'static str },
}

const REQUIRED: [(u64, &str); 7] = [
    (init::BIG_WRITES, "BIG_WRITES"),
    (init::MAX_PAGES, "MAX_PAGES"),
    (init::ATOMIC_O_TRUNC, "ATOMIC_O_TRUNC"),
    (init::DONT_MASK, "DONT_MASK"),
    (init::PARALLEL_DIROPS, "PARALLEL_DIROPS"),
    (init::HANDLE_KILLPRIV_V2, "HANDLE_KILLPRIV_V2"),
    (init::SETXATTR_EXT, "SETXATTR_EXT"),
];

const WHERE_OFFERED: u64 = init::ASYNC_READ
    | init::ASYNC_DIO
    | init::ABORT_ERROR
    | init::CREATE_SUPP_GROUP
    | init::HAS_EXPIRE_ONLY
    | init::HAS_RESEND
    | init::INIT_EXT;

impl Capabilities {
    /// The optional bits that are wanted, each with its name where the mount fails without it.
    fn wanted(&self) -> [(bool, u64, Option<&'static str>); 11] {
        let auto = self.readdirplus == Readdirplus::Auto;
        [
            (self.posix_locks, init::POSIX_LOCKS, Some("POSIX_LOCKS")),
            (self.flock_locks, init::FLOCK_LOCKS, Some("FLOCK_LOCKS")),
            (self.posix_acl, init::POSIX_ACL, Some("POSIX_ACL")),
            (self.export, init::EXPORT_SUPPORT, None),
            (self.readdirplus != Readdirplus::Never, init::DO_READDIRPLUS, None),
            (auto, init::READDIRPLUS_AUTO, None),
            (self.writeback_cache, init::WRITEBACK_CACHE, Some("WRITEBACK_CACHE")),
            (self.explicit_invalidation, init::EXPLICIT_INVAL_DATA, None),
            (!self.explicit_invalidation, init::AUTO_INVAL_DATA, None),
            (self.cache_symlinks, init::CACHE_SYMLINKS, None),
            (self.direct_io_mmap, init::DIRECT_IO_ALLOW_MMAP, None),
        ]
    }

    fn check(&self) -> Result<(), InitError> {
        let fits =
            self.max_write_bytes.is_multiple_of(PAGE_BYTES) && (PAGE_BYTES..=MAX_WRITE_BYTES).contains(&self.max_write_bytes);
        if !fits {
            return Err(InitError::Unfit { what: "max_write_bytes", choose: "a multiple of 4096, up to 1048576" });
        }
        if self.max_background == 0 {
            return Err(InitError::Unfit { what: "max_background", choose: "at least 1" });
        }
        if self.request_timeout_s.is_some() && (self.posix_locks || self.flock_locks) {
            let choose = "either request_timeout_s or lock requests: waiting for a lock would abort the mount";
            return Err(InitError::Unfit { what: "request_timeout_s", choose });
        }
        Ok(())
    }
}

/// Answers a kernel's INIT.
///
/// After [`InitError::NewerMajor`] the kernel must be told [`abi::MAJOR`], and sends another INIT.
pub fn negotiate(offer: &Init, wanted: &Capabilities) -> Result<Negotiated, InitError> {
    wanted.check()?;
    if offer.major > abi::MAJOR {
        return Err(InitError::NewerMajor { major: offer.major, minor: offer.minor });
    }
    if offer.major < abi::MAJOR || offer.minor < abi::MINOR_MIN {
        return Err(InitError::TooOld { major: offer.major, minor: offer.minor });
    }
    let mut flags = offer.flags & WHERE_OFFERED;
    let mut missing = Vec::new();
    for (bit, name) in REQUIRED {
        flags |= offer.flags & bit;
        missing.extend((offer.flags & bit == 0).then_some(name));
    }
    for (wanted, bit, required_as) in wanted.wanted() {
        if wanted {
            flags |= offer.flags & bit;
            missing.extend(required_as.filter(|_| offer.flags & bit == 0));
        }
    }
    let timeout = wanted.request_timeout_s.filter(|_| offer.flags & init::REQUEST_TIMEOUT != 0);
    if wanted.request_timeout_s.is_some() && timeout.is_none() {
        missing.push("REQUEST_TIMEOUT");
    }
    if !missing.is_empty() {
        return Err(InitError::Missing { missing });
    }
    Ok(Negotiated {
        minor: offer.minor.min(abi::MINOR),
        flags: flags | timeout.map_or(0, |_| init::REQUEST_TIMEOUT),
        max_readahead_bytes: offer.max_readahead.min(wanted.max_readahead_bytes),
        max_write_bytes: wanted.max_write_bytes,
        max_background: wanted.max_background,
        request_timeout_s: timeout.unwrap_or(0),
    })
}

impl Negotiated {
    pub fn has(&self, bit: u64) -> bool {
        self.flags & bit != 0
    }

    /// The reply's arguments.
    pub fn to_wire(&self) -> InitOut {
        InitOut {
            major: abi::MAJOR,
            minor: self.minor,
            max_readahead: self.max_readahead_bytes,
            flags: self.flags as u32,
            max_background: self.max_background,
            // Above three quarters of the limit the kernel holds read-ahead back.
            congestion_threshold: (self.max_background / 4 * 3).max(1),
            max_write: self.max_write_bytes,
            time_granularity: 1,
            max_pages: (self.max_write_bytes / PAGE_BYTES) as u16,
            flags2: (self.flags >> 32) as u32,
            request_timeout: self.request_timeout_s,
            ..InitOut::default()
        }
    }

    /// The arguments that answer a newer major: the kernel comes back with this one.
    pub fn other_major() -> InitOut {
        InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() }
    }
}

#[cfg(test)]
mod tests;
