//! How mounts end: unmounted, detached, aborted; stalled, stopped and mounted by others.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::Duration;

use fuse::reply::Found;
use fuse::request::{GetAttributes, Lookup};
use fuse::{
    Attributes, AttributesFor, Caller, End, FileSystem, Mount, MountError, MountOptions, Reply, Session, Unmount, UnmountError,
};
use parking_lot::Mutex;

use crate::harness::{Mounted, PATIENCE, eventually, lacks, mount_options, options, run, skipped};
use crate::memfs::MemFs;

fn memory() -> Arc<MemFs> {
    Arc::new(MemFs::new(Duration::from_secs(3600)))
}

/// Has a root directory, and never answers a lookup: `blocks` keeps its thread, else it keeps the reply.
struct Stalled {
    kept: Mutex<Vec<Reply<Found>>>,
    blocks: Option<Mutex<Receiver<()>>>,
    called: SyncSender<()>,
}

impl FileSystem for Stalled {
    fn getattr(&self, _caller: &Caller, _request: GetAttributes, reply: Reply<AttributesFor>) {
        let attributes = Attributes { ino: 1, mode: 0o40_755, nlink: 2, ..Attributes::default() };
        reply.ok(AttributesFor { attributes, valid: Duration::from_secs(1) });
    }

    fn lookup(&self, _caller: &Caller, _request: Lookup<'_>, reply: Reply<Found>) {
        self.kept.lock().push(reply);
        self.called.send(()).unwrap();
        if let Some(blocks) = &self.blocks {
            // It ends when the test drops the other end.
            assert!(blocks.lock().recv().is_err());
        }
    }
}

struct Stall {
    mount: Mounted,
    caller: std::thread::JoinHandle<std::io::Error>,
    file_system: Arc<Stalled>,
}

/// A mount with a call that is blocked.
fn stall(blocks: Option<Receiver<()>>) -> Stall {
    let (called, calls) = sync_channel(8);
    let file_system = Arc::new(Stalled { kept: Mutex::default(), blocks: blocks.map(Mutex::new), called });
    let mount = Mounted::new(Arc::clone(&file_system));
    let path = mount.path("f");
    let caller = std::thread::spawn(move || fs::metadata(path).unwrap_err());
    calls.recv_timeout(PATIENCE).unwrap();
    Stall { mount, caller, file_system }
}

#[test]
fn a_mount_in_use_is_busy_and_then_unmounted() {
    if skipped("a_mount_in_use_is_busy_and_then_unmounted") {
        return;
    }
    let mount = Mounted::new(memory());
    let open = File::create(mount.path("f")).unwrap();
    let busy = mount.session().unmount(Unmount::Clean);
    assert!(matches!(busy, Err(UnmountError::Busy { .. })), "{busy:?}");
    drop(open);
    // The release that follows the close is on its way.
    eventually(|| mount.session().unmount(Unmount::Clean).is_ok());
    assert_eq!(mount.session().wait_for(PATIENCE), Some(End::Unmounted));
    let gone = mount.session().unmount(Unmount::Clean);
    assert!(matches!(gone, Err(UnmountError::NotMounted { .. })), "{gone:?}");
}

#[test]
fn a_detached_mount_ends_with_its_last_use() {
    if skipped("a_detached_mount_ends_with_its_last_use") {
        return;
    }
    let mount = Mounted::new(memory());
    let open = File::create(mount.path("f")).unwrap();
    mount.session().unmount(Unmount::Detach).unwrap();
    assert!(!mount.path("f").exists());
    open.set_len(7).unwrap();
    assert_eq!(open.metadata().unwrap().len(), 7, "it is still served");
    drop(open);
    // It was served until now. The kernel has been seen to call this end by either name.
    let end = mount.session().wait_for(PATIENCE).unwrap();
    assert!(matches!(end, End::Aborted | End::Unmounted), "{end:?}");
}

#[test]
fn a_stalled_mount_is_aborted_and_its_calls_end() {
    if skipped("a_stalled_mount_is_aborted_and_its_calls_end") {
        return;
    }
    let Stall { mount, caller, file_system } = stall(None);
    mount.session().unmount(Unmount::Abort).unwrap();
    let error = caller.join().unwrap();
    assert_eq!(error.raw_os_error(), Some(103), "ECONNABORTED: {error}");
    let end = mount.session().wait_for(PATIENCE).unwrap();
    assert!(matches!(end, End::Aborted | End::Unmounted), "{end:?}");
    let late = file_system.kept.lock().pop().unwrap().error(fuse::Errno::NOENT);
    assert_eq!(late, fuse::Delivery::Gone);
}

#[test]
fn a_handler_that_never_returns_keeps_its_thread_and_nothing_else() {
    if skipped("a_handler_that_never_returns_keeps_its_thread_and_nothing_else") {
        return;
    }
    let (releases, blocks): (Sender<()>, _) = channel_that_is_never_used();
    let Stall { mut mount, caller, .. } = stall(Some(blocks));
    assert!(fs::metadata(mount.path("")).unwrap().is_dir(), "other threads serve");
    mount.session().unmount(Unmount::Abort).unwrap();
    assert_eq!(caller.join().unwrap().raw_os_error(), Some(103));
    assert_eq!(mount.session().wait_for(Duration::from_millis(200)), None, "the thread is in the handler");
    let (session, busy) = mount.session.take().unwrap().stop(Duration::from_millis(50)).unwrap_err();
    assert_eq!(busy.threads, 1);
    drop(releases);
    assert!(session.wait_for(PATIENCE).is_some());
}

/// Its receiver waits until the sender is dropped.
fn channel_that_is_never_used() -> (Sender<()>, Receiver<()>) {
    #[expect(clippy::disallowed_methods, reason = "nothing is ever sent")]
    std::sync::mpsc::channel()
}

#[test]
fn a_session_stops_and_another_goes_on_with_its_mount() {
    if skipped("a_session_stops_and_another_goes_on_with_its_mount") {
        return;
    }
    let file_system = memory();
    let mut mount = Mounted::new(Arc::clone(&file_system));
    fs::write(mount.path("f"), "kept").unwrap();
    for round in 0..3 {
        let stopped = mount.session.take().unwrap().stop(PATIENCE).map_err(|(_, busy)| busy).unwrap();
        let path = mount.path("f");
        let waiting = std::thread::spawn(move || {
            fs::write(&path, "more").unwrap();
            fs::read_to_string(path).unwrap()
        });
        // More or fewer threads than before.
        mount.session = Some(Session::start(stopped, Arc::clone(&file_system), &options(3 + round)).unwrap());
        assert_eq!(waiting.join().unwrap(), "more");
    }
}

#[test]
fn a_read_only_mount_takes_no_writes() {
    if skipped("a_read_only_mount_takes_no_writes") {
        return;
    }
    let mount = Mounted::with(memory(), &MountOptions { read_only: true, ..mount_options() }, &options(1));
    let refused = fs::write(mount.path("f"), "").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS: {refused}");
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let point = mount.session().mount().point().display().to_string();
    let line = table.lines().find(|line| line.contains(&point)).unwrap();
    assert!(line.starts_with("memfs ") && line.contains(" fuse.trilith ro,"), "{line}");
    assert!(line.contains("default_permissions") && line.contains("allow_other"), "{line}");
}

#[test]
fn what_the_kernel_can_not_do_is_refused_and_nothing_stays_mounted() {
    if skipped("what_the_kernel_can_not_do_is_refused") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = Mount::new(folder.path(), &mount_options()).unwrap();
    let point = mount.point().to_owned();
    let mut unfit = options(1);
    unfit.capabilities.max_write_bytes = 5000;
    let refused = Session::start(mount, memory(), &unfit).map(drop).unwrap_err().to_string();
    assert!(refused.contains("max_write_bytes"), "{refused}");
    let gone = fuse::unmount(&point, Unmount::Clean);
    assert!(matches!(gone, Err(UnmountError::NotMounted { .. })), "{gone:?}");
}

/// A user that `fusermount3` finds in the table of users.
const NOBODY: u32 = 65_534;

/// The test program again, as another user: `fusermount3` mounts for it. In a mount namespace of its own all may open `/dev/fuse`.
#[test]
fn a_user_mounts_by_fusermount() {
    let test = "a_user_mounts_by_fusermount";
    if skipped(test) || lacks(test, "fusermount3") || lacks(test, "setpriv") || lacks(test, "unshare") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let point = folder.path().join("mount");
    fs::create_dir(&point).unwrap();
    std::os::unix::fs::chown(&point, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let script = "set -e\n\
        mknod -m 666 $0/device c 10 229\n\
        mount --bind $0/device /dev/fuse\n\
        exec setpriv --reuid=nobody --regid=nogroup --clear-groups env FUSE_SERVE=$0/mount \
        $0/program --ignored --exact serve::as_a_user --nocapture";
    let printed = run("unshare", &["--mount", "sh", "-c", script, folder.path().to_str().unwrap()]);
    assert!(printed.contains("mounted, used and unmounted"), "{printed}");
}

#[test]
fn a_directory_that_can_not_be_mounted_on_is_told() {
    if skipped("a_directory_that_can_not_be_mounted_on_is_told") {
        return;
    }
    let refused = Mount::new(Path::new("/proc/self/absent"), &mount_options()).map(drop);
    assert!(matches!(refused, Err(MountError::Point { .. })), "{refused:?}");
}
