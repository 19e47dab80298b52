//! A copy of the manager's folder: opening a manager replays its log, and whoever only looks must not.

use anyhow::Context;
use bench::complain;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder's copy beside it, readable by its owner only and removed in the end: it holds secret keys.
pub struct FolderCopy {
    path: PathBuf,
}

impl FolderCopy {
    pub fn of(folder: &Path) -> anyhow::Result<FolderCopy> {
        let path = folder.with_extension(format!("fsck-{}", std::process::id()));
        let copy = FolderCopy { path };
        copy_folder(folder, &copy.path).with_context(|| format!("copying {} to {}", folder.display(), copy.path.display()))?;
        Ok(copy)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for FolderCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            complain!("trilith: {} could not be removed ({error}): it holds secret keys", self.path.display());
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
