//! Segments as files.

use std::path::Path;
use std::sync::Arc;

use disk::{FileDisk, LOCK_PATIENCE};
use env::Env;

use crate::{FolderStore, Lsn, MIN_SEGMENT_BYTES, OpenError, OpenOptions, Wal};

async fn open(folder: &Path) -> Result<(Wal, Vec<Vec<u8>>), OpenError> {
    let mut records = Vec::new();
    let store = Arc::new(FolderStore::open(&Env::real(), folder, MIN_SEGMENT_BYTES)?);
    let wal = Wal::open(&Env::real(), store, OpenOptions::default(), &mut |_, payload| records.push(payload.to_vec())).await?;
    Ok((wal, records))
}

#[tokio::test]
async fn a_log_in_a_folder_comes_back_and_grows() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("log");
    let (wal, records) = open(&folder).await.unwrap();
    assert!(records.is_empty());
    let appended: Vec<Vec<u8>> = (0..40u8).map(|number| vec![number; 900]).collect();
    for (record, lsn) in appended.iter().zip(1..) {
        assert_eq!(wal.append(record.clone()).await.unwrap(), Lsn(lsn));
    }
    assert!(wal.segment_count() > 2);
    drop(wal);
    let (wal, records) = open(&folder).await.unwrap();
    assert_eq!(records, appended);
    wal.truncate_before(Lsn(40));
    let before = wal.segment_count();
    for _ in 0..9 {
        wal.append(vec![1; 900]).await.unwrap();
    }
    assert_eq!(wal.segment_count(), before, "given-up segments are used again");
}

#[tokio::test]
async fn a_log_is_used_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (_wal, _) = open(folder.path()).await.unwrap();
    let refused = open(folder.path()).await.err().unwrap();
    assert!(matches!(refused, OpenError::Store(_)), "{refused}");
}

/// A start ended at once where one that was killed still held a segment, though it held nothing else any more.
#[tokio::test]
async fn a_segment_that_a_predecessor_holds_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _) = open(folder.path()).await.unwrap();
    wal.append(b"one".to_vec()).await.unwrap();
    drop(wal);
    let segment = folder.path().join("00000002.segment");
    let held = FileDisk::open_waiting(&Env::real(), &segment, &disk::OpenOptions::default(), LOCK_PATIENCE).await.unwrap();
    let letting_go = async {
        Env::real().sleep(LOCK_PATIENCE / 20).await;
        drop(held);
    };
    let (opened, ()) = tokio::join!(open(folder.path()), letting_go);
    assert_eq!(opened.unwrap().1, [b"one"]);
}

#[tokio::test]
async fn a_half_made_segment_is_made_again_and_a_cut_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let half = folder.path().join("00000007.segment");
    std::fs::write(&half, vec![0; 4096]).unwrap();
    let (wal, _) = open(folder.path()).await.unwrap();
    wal.append(b"one".to_vec()).await.unwrap();
    drop(wal);
    assert_eq!(std::fs::metadata(&half).unwrap().len(), MIN_SEGMENT_BYTES);
    std::fs::OpenOptions::new().write(true).open(&half).unwrap().set_len(8192).unwrap();
    let refused = open(folder.path()).await.err().unwrap();
    assert!(matches!(refused, OpenError::Segment { .. }), "{refused}");
}
