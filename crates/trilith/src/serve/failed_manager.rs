//! A data folder whose file system has no room: the manager's part of a node takes nothing more, and the node ends with it.
//!
//! A start needs room in that file system. A lone node goes on until there is some: objects are served meanwhile, and would not be by a start
//! that finds no room.

use env::Env;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How often it is looked at whether there is room again.
const LOOK: Duration = Duration::from_secs(1);
/// Free bytes of a file system that is not full: some segments of the manager's log, and its state.
const ROOM_BYTES: u64 = 64 << 20;

/// Waits until another start would do better than this one, whose manager has ended for this reason.
pub async fn wait_for_room_to_start(env: &Env, data: &Path, reason: &str) {
    tracing::error!(reason, "the manager takes nothing more: buckets can't be changed, and deletes give no space back");
    wait_for_room(env, || has_room(data), data).await;
}

/// Says what to do about a start that found no room.
pub fn explain(error: anyhow::Error, data: &Path) -> anyhow::Error {
    let is_room = |cause: &io::Error| matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    match error.chain().any(|cause| cause.downcast_ref().is_some_and(is_room)) {
        true => error.context(format!(
            "a file system is full, that of {} perhaps. Make room in it, and start again; what was acknowledged is safe",
            data.display()
        )),
        false => error,
    }
}

async fn wait_for_room(env: &Env, has_room: impl Fn() -> bool, data: &Path) {
    if has_room() {
        return;
    }
    tracing::error!(
        folder = %data.display(),
        "the file system of the data folder is full. Objects are served as far as they can be; make room, and this server ends, to be started again. Don't stop \
         it before: a start may find too little"
    );
    while !has_room() {
        env.sleep(LOOK).await;
    }
}

/// What can't be asked has room: the error of whoever needs it says more.
fn has_room(data: &Path) -> bool {
    rustix::fs::statvfs(data).map_or(true, |status| status.f_bavail * status.f_frsize >= ROOM_BYTES)
}

#[cfg(test)]
mod tests {
    use super::{explain, wait_for_room};
    use anyhow::Context;
    use env::Env;
    use std::cell::Cell;
    use std::path::Path;

    #[tokio::test]
    async fn a_full_file_system_is_waited_for() {
        let looks = Cell::new(0);
        let has_room = || {
            looks.set(looks.get() + 1);
            looks.get() > 5
        };
        wait_for_room(&Env::simulated(1), has_room, Path::new("/data")).await;
        assert_eq!(looks.get(), 6);
    }

    #[test]
    fn a_start_without_room_says_what_to_do() {
        let said = |errno: rustix::io::Errno| {
            let failed = Err::<(), _>(std::io::Error::from(errno)).context("opening the manager's state").unwrap_err();
            format!("{:#}", explain(failed, Path::new("/data")))
        };
        for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT] {
            let said = said(errno);
            assert!(
                said.contains("that of /data perhaps. Make room") && said.contains("opening the manager's state"),
                "{said}"
            );
        }
        assert!(said(rustix::io::Errno::IO).starts_with("opening the manager's state"));
    }
}
