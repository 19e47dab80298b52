//! The process's number, in the data folder while it runs: for whoever wants to signal it.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// The file in the data folder.
const FILE: &str = "trilith.pid";

/// The file; dropping it removes it. After a kill it stays, and the next start replaces it: the lock on the data is the devices'.
pub struct PidFile(PathBuf);

impl PidFile {
    pub fn write(data: &Path) -> anyhow::Result<PidFile> {
        let path = data.join(FILE);
        std::fs::write(&path, format!("{}\n", std::process::id())).with_context(|| format!("writing {}", path.display()))?;
        Ok(PidFile(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // It is there for convenience alone.
        let _ = std::fs::remove_file(&self.0);
    }
}
