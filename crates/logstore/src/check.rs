//! Reading everything: each copy of each record and chunk that the index names, and of the runs (`trilith fsck`).
//!
//! A copy is good if it is whole and is of the record that it should be. What the index does not name is garbage or was never
//! acknowledged, and is not looked at.

use crate::index::Located;
use crate::large::read_tree;
use crate::read::chunk_frame_bytes;
use crate::store::{Inner, LogStore, SHARDS};
use crate::targets::RecordFrame;
use format::record::{EntryName, Space};
use format::replicas::Places;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{BucketId, KeyHash, Place};

/// Findings that are described; the rest is counted.
const MAX_FINDINGS: usize = 256;

/// What was read, and what was wrong.
#[derive(Debug, Default)]
pub struct CheckReport {
    pub records: u64,
    pub chunks: u64,
    /// Of all good copies.
    pub bytes: u64,
    /// Objects and their bytes, by bucket.
    pub objects: BTreeMap<BucketId, (u64, u64)>,
    /// Records and chunks with fewer good copies than new ones get, but at least one.
    pub few_copies: u64,
    /// Copies that are damaged, while others are good.
    pub bad_copies: u64,
    /// Records and chunks without a good copy.
    pub lost: u64,
    /// At most [`MAX_FINDINGS`].
    pub findings: Vec<CheckFinding>,
}

/// Something of which a copy is not good.
#[derive(Debug)]
pub struct CheckFinding {
    /// Whose it is; none if no copy tells.
    pub owner: Option<EntryName>,
    /// Bad copies, and why.
    pub bad: Vec<(Place, String)>,
    /// Good copies.
    pub good: usize,
}

impl LogStore {
    /// Reads every copy of everything. To be called while nothing is written.
    pub async fn check(&self) -> CheckReport {
        let inner = &self.inner;
        let mut report = CheckReport::default();
        for shard in 0..SHARDS {
            let mut entries: Vec<(KeyHash, Located)> = Vec::new();
            if let Err(error) = inner.visit_records(shard..shard + 1, &mut |hash, located| entries.push((hash, located))).await
            {
                tracing::error!(%error, "the runs can't be read, and with them which records there are");
                report.lost += 1;
            }
            for (hash, located) in entries {
                check_record(inner, &mut report, &hash, &located).await;
            }
        }
        for run in inner.names.layers().runs {
            for (places, frame_bytes) in run.frames() {
                check_copies(inner, &mut report, &places, frame_bytes, None, |_| Ok(())).await;
            }
        }
        report
    }
}

async fn check_record(inner: &Arc<Inner>, report: &mut CheckReport, hash: &KeyHash, located: &Located) {
    report.records += 1;
    if !is_needed(inner, hash, located) {
        return;
    }
    let is_it = |frame: &RecordFrame| match frame.record.hash == *hash {
        true => Ok(()),
        false => Err("another record stands there".to_owned()),
    };
    let Some(frame) = check_copies(inner, report, &located.places, located.frame_bytes, None, is_it).await else { return };
    let owner = EntryName { name: bytes::Bytes::copy_from_slice(&frame.record.name.name), ..frame.record.name };
    if !located.is_live() {
        return;
    }
    if owner.space == Space::Object {
        let (objects, bytes) = report.objects.entry(owner.bucket).or_default();
        (*objects, *bytes) = (*objects + 1, *bytes + frame.record.length);
    }
    if frame.record.tree_height == 0 {
        return;
    }
    let tree = match read_tree(inner, &frame.payload, frame.record.tree_height).await {
        Ok(tree) => tree,
        Err(error) => {
            report.lost += 1;
            report.note(CheckFinding { owner: Some(owner), bad: vec![(located.places.primary(), error.to_string())], good: 0 });
            return;
        }
    };
    for chunk in tree.all() {
        report.chunks += 1;
        let has_length = |frame: &RecordFrame| match frame.payload.len() == chunk.payload_bytes as usize {
            true => Ok(()),
            false => Err(format!("{} bytes of content, expected {}", frame.payload.len(), chunk.payload_bytes)),
        };
        check_copies(inner, report, &chunk.places, chunk_frame_bytes(chunk.payload_bytes), Some(&owner), has_length).await;
    }
}

/// Whether a record's copies are needed. A delete's are not once a checkpoint has it: collection resets their zones while the index still names them.
fn is_needed(inner: &Inner, hash: &KeyHash, located: &Located) -> bool {
    located.is_live() || inner.shard(hash).lock().index().unsaved_epoch(hash).is_some()
}

/// Reads all copies; a good one, if there is any.
async fn check_copies(
    inner: &Inner,
    report: &mut CheckReport,
    places: &Places,
    frame_bytes: u32,
    owner: Option<&EntryName>,
    is_right: impl Fn(&RecordFrame) -> Result<(), String>,
) -> Option<RecordFrame> {
    let (mut good, mut bad, mut found) = (0, Vec::new(), None);
    let is_here = |place: &&Place| inner.targets.device(place.device).is_some();
    for place in places.as_slice().iter().filter(is_here) {
        let read = inner.targets.read(place, frame_bytes).await.map_err(|failure| failure.to_string());
        match read.and_then(|frame| is_right(&frame).map(|()| frame)) {
            Ok(frame) => {
                good += 1;
                report.bytes += u64::from(frame_bytes);
                found.get_or_insert(frame);
            }
            Err(why) => bad.push((*place, why)),
        }
    }
    report.few_copies += u64::from(good > 0 && good < inner.targets.table().copies());
    report.bad_copies += if good > 0 { bad.len() as u64 } else { 0 };
    report.lost += u64::from(good == 0);
    if good == 0 {
        let away = places.as_slice().iter().filter(|place| !is_here(place));
        bad.extend(away.map(|place| (*place, "the device is not here".to_owned())));
    }
    if !bad.is_empty() {
        let name = |frame: &RecordFrame| EntryName {
            name: bytes::Bytes::copy_from_slice(&frame.record.name.name),
            ..frame.record.name
        };
        report.note(CheckFinding { owner: owner.cloned().or_else(|| found.as_ref().map(name)), bad, good });
    }
    found
}

impl CheckReport {
    /// Whether every copy is good.
    pub fn is_well(&self) -> bool {
        self.bad_copies == 0 && self.lost == 0
    }

    fn note(&mut self, finding: CheckFinding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}
