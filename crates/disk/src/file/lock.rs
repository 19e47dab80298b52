//! One user per disk: flock, and a name for whoever has it.

use std::fmt;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::OpenError;

/// The process that holds a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    pub pid: u32,
    /// Its name, if it still runs where we can see it.
    pub command: Option<String>,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            Some(command) => write!(formatter, "process {} ({command})", self.pid),
            None => write!(formatter, "process {}", self.pid),
        }
    }
}

/// Takes the exclusive lock of an opened disk, without waiting for it.
pub(super) fn lock(path: &Path, writer: &OwnedFd) -> Result<(), OpenError> {
    match rustix::fs::flock(writer, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(OpenError::Locked { path: path.to_owned(), holder: holder_of_path(path) }),
        Err(source) => Err(OpenError::Open { path: path.to_owned(), source: source.into() }),
    }
}

/// Who holds the lock of the file at `path`, as far as /proc tells.
pub(super) fn holder_of_path(path: &Path) -> Option<LockHolder> {
    let stat = rustix::fs::stat(path).ok()?;
    let file = format!("{:02x}:{:02x}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev), stat.st_ino);
    let pid = holder_in(&fs::read_to_string("/proc/locks").ok()?, &file)?;
    let command = fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned());
    Some(LockHolder { pid, command })
}

pub(super) fn holder_text(holder: &Option<LockHolder>) -> String {
    match holder {
        Some(holder) => format!(" by {holder}; stop it first"),
        None => " by another process; stop it first".to_owned(),
    }
}

/// The holder of `file` ("major:minor:inode") in the text of /proc/locks, whose lines read
/// `1: FLOCK  ADVISORY  WRITE 8709 fe:00:5341482 0 EOF`; a waiter's line has `->` after the number.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, held, ..] if held == file => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::holder_in;

    #[test]
    fn the_holder_is_read_from_proc_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:42 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 12 fe:00:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fe:00:42 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fe:00:43 0 EOF\n";
        assert_eq!(holder_in(locks, "fe:00:42"), Some(14));
        assert_eq!(holder_in(locks, "fe:00:43"), None, "a process of another namespace has no number here");
        assert_eq!(holder_in(locks, "fe:00:44"), None);
    }
}
