//! What is measured: file systems by name, with a folder for each of their clients.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What is made in each folder, and removed afterwards.
const WORK: &str = "trilith-bench";
/// Written here, the kernel drops pages, names and inodes that are clean.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// `NAME=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub name: String,
    pub path: PathBuf,
}

impl FromStr for Folder {
    type Err = String;

    /// Names go into tables and plots as they are.
    fn from_str(text: &str) -> Result<Folder, String> {
        let (name, path) = text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=PATH"))?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_. ".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(format!("{name:?} is no name: letters, digits, blanks and -_. are"));
        }
        if path.is_empty() {
            return Err(format!("{text:?} names no folder"));
        }
        Ok(Folder { name: name.to_owned(), path: PathBuf::from(path) })
    }
}

/// A file system and its clients.
#[derive(Debug)]
pub struct System {
    pub name: String,
    mounts: Vec<PathBuf>,
}

impl System {
    /// One for each name, in the order in which names were first given.
    pub fn all_of(folders: &[Folder]) -> anyhow::Result<Vec<System>> {
        let mut systems: Vec<System> = Vec::new();
        for folder in folders {
            ensure!(folder.path.is_dir(), "{} is no folder", folder.path.display());
            match systems.iter_mut().find(|system| system.name == folder.name) {
                Some(system) => system.mounts.push(folder.path.clone()),
                None => systems.push(System { name: folder.name.clone(), mounts: vec![folder.path.clone()] }),
            }
        }
        Ok(systems)
    }

    pub fn clients(&self) -> usize {
        self.mounts.len()
    }

    /// A folder that is seen through so many of the clients.
    pub fn work(&self, clients: usize) -> anyhow::Result<Work> {
        assert!((1..=self.mounts.len()).contains(&clients), "the system has so many clients");
        let first = self.mounts[0].join(WORK);
        // Before anything would remove it: what is there already is not ours.
        std::fs::create_dir(&first)
            .with_context(|| format!("making {} (if an earlier run left it, remove it)", first.display()))?;
        let work = Work { mounts: self.mounts[..clients].iter().map(|mount| mount.join(WORK)).collect() };
        for mount in &work.mounts {
            ensure!(mount.is_dir(), "{} is not there: the folders of {} show different trees", mount.display(), self.name);
        }
        Ok(work)
    }
}

/// The folder of one measurement, by the ways to it. It is removed with what it has.
pub struct Work {
    mounts: Vec<PathBuf>,
}

impl Work {
    /// The folder as a worker's client shows it: workers are dealt to clients in turn.
    pub fn through(&self, worker: usize) -> &Path {
        &self.mounts[worker % self.mounts.len()]
    }

    /// Removes it; an error says that something could not be removed.
    pub fn remove(self) -> anyhow::Result<()> {
        self.clear().with_context(|| format!("removing {}", self.through(0).display()))
    }

    fn clear(&self) -> std::io::Result<()> {
        std::fs::remove_dir_all(self.through(0))
    }
}

impl Drop for Work {
    /// After a failure, which is what is told: what can't be removed stays.
    fn drop(&mut self) {
        drop(self.clear());
    }
}

/// Has the kernel forget what it keeps of files, if that is wanted.
pub fn drop_caches(is_wanted: bool) -> anyhow::Result<()> {
    if is_wanted {
        rustix::fs::sync();
        std::fs::write(DROP_CACHES, "3").with_context(|| format!("writing {DROP_CACHES}, which only root may"))?;
    }
    Ok(())
}
