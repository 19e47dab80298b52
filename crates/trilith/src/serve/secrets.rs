//! Files that hold secret keys: their owner alone reads them.

use std::path::Path;

/// Group and others.
const OTHERS: u32 = 0o077;

/// Takes a file's secrets from the eyes of others. A disk's permissions are the system's business.
pub fn hide_from_others(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(path)?;
    let mode = found.permissions().mode();
    if found.is_file() && mode & OTHERS != 0 {
        tracing::warn!(path = %path.display(), "others could read this device, which holds secret keys: now its owner alone can");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & !OTHERS))?;
    }
    Ok(())
}
