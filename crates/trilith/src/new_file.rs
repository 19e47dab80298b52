//! Files that are made to stand in for disks: where one may be made, and which paths are the same.
//!
//! Below `/dev` none is. A path there is that of a disk, and if there is nothing the disk is away: a file in its place would
//! stand in memory, take what is written, and keep the disk from coming back under its name.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// Where disks have their names.
const DISKS: &str = "/dev";
/// Memory that is meant to be used as such.
const SHARED_MEMORY: &str = "/dev/shm";
/// Most symbolic links on the way to a file, as the system has it.
const MAX_LINKS: usize = 40;

/// Refuses a path at which there is nothing, and at which no file is to be made.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let place = place_of(path)?;
    if place.starts_with(DISKS) && !place.starts_with(SHARED_MEMORY) {
        let meant = if place == path { String::new() } else { format!(" ({})", place.display()) };
        bail!(
            "there is no disk {}{meant}: is it attached, under this name? Nothing is made below {DISKS}, because it would stand in \
             memory",
            path.display()
        );
    }
    Ok(())
}

/// Whether two paths name the same file, be it there or not.
pub fn is_same(one: &Path, other: &Path) -> bool {
    one == other || place_of(one).is_ok_and(|one| place_of(other).is_ok_and(|other| one == other))
}

/// Where a file would be made: links followed, also those that lead to nothing.
fn place_of(path: &Path) -> anyhow::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let folder = folder_of(&path);
        let absent = || format!("the folder {} of {}", folder.display(), path.display());
        let folder = folder.canonicalize().with_context(absent)?;
        let name = path.file_name().with_context(|| format!("{} has no file name", path.display()))?;
        let place = folder.join(name);
        match place.read_link() {
            Ok(target) => path = folder.join(target),
            Err(_) => return Ok(place),
        }
    }
    bail!("{} leads through more than {MAX_LINKS} symbolic links", path.display())
}

/// The folder that a path's last part is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::{check, is_same};
    use std::os::unix::fs::symlink;
    use std::path::Path;

    #[test]
    fn nothing_is_made_where_disks_have_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/dev/no-such-disk", &link).unwrap();
        symlink("link", folder.path().join("farther")).unwrap();
        symlink("/dev", folder.path().join("disks")).unwrap();
        for there in ["link", "farther", "disks/no-such-disk"] {
            let error = check(&folder.path().join(there)).unwrap_err().to_string();
            assert!(error.contains("there is no disk") && error.contains("(/dev/no-such-disk)"), "{error}");
        }
        for disk in ["/dev/no-such-disk", "/dev/../dev/no-such-disk", "/tmp/../dev/no-such-disk"] {
            assert!(check(Path::new(disk)).unwrap_err().to_string().contains("there is no disk"), "{disk}");
        }
        check(&folder.path().join("file")).unwrap();
        check(Path::new("/dev/shm/file")).unwrap();
        check(Path::new("file")).unwrap();
        assert!(check(&folder.path().join("no/folder")).is_err());
    }

    #[test]
    fn links_that_lead_in_a_circle_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        symlink(&one, &other).unwrap();
        symlink(&other, &one).unwrap();
        assert!(check(&one).unwrap_err().to_string().contains("symbolic links"));
    }

    #[test]
    fn paths_are_the_same_however_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("sub")).unwrap();
        symlink("sub", path("link")).unwrap();
        assert!(is_same(&path("sub/x"), &path("sub/./x")) && is_same(&path("sub/x"), &path("link/../sub/x")));
        assert!(is_same(&path("link/x"), &path("sub/x")) && is_same(&path("no/folder"), &path("no/folder")));
        assert!(!is_same(&path("sub/x"), &path("x")) && !is_same(&path("sub/x"), &path("sub/y")));
    }
}
