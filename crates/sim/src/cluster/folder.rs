//! A folder of a run on the machine that simulates: nodes note there which images they serve.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Folders of this process, so that each has its own name.
static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// It goes with the run.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Result<Folder, String> {
        let name = format!("simulated-cluster-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
        Ok(Folder(folder))
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind is a few hundred bytes in the folder for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
