//! A mount in a folder of its own, that is gone when the test is over, however it ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use fuse::{Capabilities, FileSystem, Mount, MountOptions, Session, SessionId, SessionOptions, Unmount};
use tempfile::TempDir;

/// How long anything that should end is waited for.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const SESSION: SessionId = SessionId(77);

/// Says why nothing can be mounted here, for a test to return.
pub fn skipped(test: &str) -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        "it takes root"
    } else if !Path::new("/dev/fuse").exists() {
        "it takes /dev/fuse"
    } else {
        return false;
    };
    println!("SKIPPED {test}: {reason}");
    true
}

/// Says that a program is not installed, for a test to return.
pub fn lacks(test: &str, program: &str) -> bool {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()));
    if !found {
        println!("SKIPPED {test}: it takes the program {program}");
    }
    !found
}

/// Waits until something holds; it must within [`PATIENCE`].
pub fn eventually(mut holds: impl FnMut() -> bool) {
    const STEP: Duration = Duration::from_millis(5);
    for _step in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(STEP);
    }
    panic!("it did not come to be within {PATIENCE:?}");
}

pub fn options(threads: usize) -> SessionOptions {
    let capabilities = Capabilities { posix_locks: true, flock_locks: true, ..Capabilities::default() };
    SessionOptions { session: SESSION, threads, capabilities }
}

pub fn mount_options() -> MountOptions {
    MountOptions { allow_other: true, nosuid: false, nodev: false, source: "memfs".to_owned(), ..MountOptions::default() }
}

pub struct Mounted {
    folder: TempDir,
    /// None while another session is being given the mount.
    pub session: Option<Session>,
}

impl Mounted {
    pub fn new<F: FileSystem>(file_system: Arc<F>) -> Self {
        Mounted::with(file_system, &mount_options(), &options(4))
    }

    pub fn with<F: FileSystem>(file_system: Arc<F>, mount: &MountOptions, session: &SessionOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let mount = Mount::new(folder.path(), mount).unwrap();
        let session = Session::start(mount, file_system, session).unwrap();
        Mounted { folder, session: Some(session) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that unmounted itself has nothing left here.
        if let Err(error) = fuse::unmount(&self.folder.path().canonicalize().unwrap_or_default(), Unmount::Abort) {
            println!("{error}");
        }
    }
}

/// Runs a program and returns what it printed; it must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = try_run(program, arguments);
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub fn try_run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}
