//! The process's number, in the data folder while it runs: for whoever wants to signal it.

use std::path::{Path, PathBuf};

/// The file in the data folder.
const FILE: &str = "trilith.pid";

/// The file; dropping it removes it. After a kill it stays, and the next start replaces it. Whoever writes it has locked what the
/// folder holds: else it would be another server's.
pub struct PidFile(PathBuf);

impl PidFile {
    /// It is there for convenience alone, so a server runs without it too.
    pub fn write(data: &Path) -> PidFile {
        let path = data.join(FILE);
        if let Err(error) = std::fs::write(&path, format!("{}\n", std::process::id())) {
            tracing::warn!(path = %path.display(), %error, "the process's number could not be written down");
        }
        PidFile(path)
    }
}

/// Whether a server runs on the data, by its file. A file that a kill left counts if its number has come to be another process's.
pub fn is_running(data: &Path) -> bool {
    let number = std::fs::read_to_string(data.join(FILE)).ok().and_then(|text| text.trim().parse::<u32>().ok());
    number.is_some_and(|number| Path::new("/proc").join(number.to_string()).exists())
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
