//! The shared log in a folder of a file system.
//!
//! ```text
//!   FOLDER/base               two blocks; holding it open keeps other processes out
//!   FOLDER/segments/N.segment
//!   FOLDER/rows                a store of `kv`: what machines of rows are kept as
//!   FOLDER/tail                the log's last records, for as long as the machine runs
//! ```

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskError, DiskExt, Durability, FileDisk, LOCK_PATIENCE, OpenOptions, ReadMode};
use env::Env;
use kv::FjallKv;
use net::BoxFuture;
use wal::{FileTail, FolderStore, Tail};

use super::{BASE_BYTES, LogPlace};
use crate::limits::{FOLDER_SEGMENT_BYTES, MAX_LOG_SEGMENTS};

const BASE_FILE: &str = "base";
const SEGMENTS_FOLDER: &str = "segments";
const ROWS_FOLDER: &str = "rows";
const TAIL_FILE: &str = "tail";

/// Permissions of the folder: commands may hold secrets.
const OWNER_ONLY: u32 = 0o700;

/// A folder cannot hold a shared log.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("the folder {} cannot be used", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the base of the consensus log cannot be opened")]
    Base(#[from] disk::OpenError),
    #[error("the base of the consensus log cannot be prepared")]
    Prepare(#[from] DiskError),
    #[error("the rows beside the consensus log cannot be used")]
    Rows(#[from] kv::OpenError),
    #[error("the segments of the consensus log cannot be used")]
    Segments(#[from] wal::StoreError),
}

impl LogPlace {
    /// The shared log in `folder`, which is made if absent, for its owner alone, and stays this process's until the place is dropped. A predecessor that ends
    /// may hold it for a moment, for which it is waited.
    pub fn in_folder<'a>(env: &'a Env, folder: &'a Path) -> BoxFuture<'a, Result<LogPlace, PlaceError>> {
        Box::pin(async move {
            make_folder(folder).map_err(|cause| PlaceError::Folder { path: folder.to_path_buf(), cause })?;
            let options = OpenOptions { create: true, capacity_bytes: Some(BASE_BYTES), direct: true };
            let base = FileDisk::open_waiting(env, &folder.join(BASE_FILE), &options, LOCK_PATIENCE).await?;
            if is_unused(&base).await? {
                base.write(0, AlignedBuf::zeroed(BASE_BYTES as usize), Durability::Durable).await?;
            }
            let segments = FolderStore::open(env, &folder.join(SEGMENTS_FOLDER), FOLDER_SEGMENT_BYTES)?;
            let rows = FjallKv::open(&folder.join(ROWS_FOLDER))?;
            let place = LogPlace::new(Arc::new(segments), Arc::new(base), MAX_LOG_SEGMENTS);
            Ok(LogPlace { rows: Arc::new(rows), tail: open_tail(&folder.join(TAIL_FILE)), ..place })
        })
    }
}

impl LogPlace {
    /// Whether `folder` holds a shared log, if only a part of one.
    pub fn is_in_folder(folder: &Path) -> io::Result<bool> {
        let mut segments = match std::fs::read_dir(folder.join(SEGMENTS_FOLDER)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read?,
        };
        Ok(folder.join(BASE_FILE).try_exists()? && segments.next().transpose()?.is_some())
    }
}

/// None where the file system has no room for it, or does not take it: nothing depends on it.
fn open_tail(path: &Path) -> Option<Arc<dyn Tail>> {
    match FileTail::open(path) {
        Ok(tail) => Some(Arc::new(tail)),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the consensus log has no tail: file volumes of class ordered are synchronous");
            None
        }
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::set_permissions(folder, Permissions::from_mode(OWNER_ONLY))?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

/// A base has its full size, durably, before anything but zeros is written to it. One that is short and holds something was cut by
/// someone else: it stays as it is, for whoever reads it to see.
async fn is_unused(base: &FileDisk) -> Result<bool, DiskError> {
    match base.size_bytes() {
        BASE_BYTES.. => Ok(false),
        size if size < BLOCK_BYTES as u64 => Ok(true),
        _ => Ok(base.read(0, BLOCK_BYTES, ReadMode::Direct).await?.iter().all(|byte| *byte == 0)),
    }
}
