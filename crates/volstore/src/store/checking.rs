//! The fsck of a group: the owners of its blocks, and all content against its sums.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt};
use types::BucketId;

use super::{Inner, Store};
use crate::content::Piece;
use crate::limits::{LOAD_READS, MAX_FINDINGS};
use crate::name::Name;
use crate::pg::Cursor;

/// What a check found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Objects and their bytes, by bucket.
    pub objects: BTreeMap<BucketId, (u64, u64)>,
    /// Bytes that are as their sums say, those of open uploads among them.
    pub good_bytes: u64,
    /// Puts that were under way when the server ended, and whose bytes are not there: a start gives them up.
    pub given_up: u64,
    /// The first [`MAX_FINDINGS`] things that are wrong.
    pub findings: Vec<String>,
    /// How many things are wrong.
    pub wrong: u64,
}

impl CheckReport {
    pub fn add(&mut self, finding: String) {
        self.wrong += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        }
    }
}

impl Store {
    /// Compares the bitmap with the owners of blocks, and reads all content from the medium.
    pub async fn check_all(&self, report: &mut CheckReport) {
        if let Err(reason) = self.check() {
            report.add(format!("placement group {}: {reason}", self.inner.seat.group.number));
        }
        report.given_up += self.stats().revoked;
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let (contents, next) = self.inner.state.lock().pg.contents(&from);
            if matches!(from, Cursor::Objects(_)) {
                for (name, content) in &contents {
                    let (objects, bytes) = report.objects.entry(name.bucket()).or_default();
                    *objects += 1;
                    *bytes += content.length();
                }
            }
            let pieces = contents.iter().flat_map(|(name, content)| content.pieces.iter().map(move |piece| (name, piece)));
            let checking = async |(name, piece)| self.inner.check_piece(name, piece).await;
            let mut checked = stream::iter(pieces).map(checking).buffered(LOAD_READS);
            while let Some(outcome) = checked.next().await {
                match outcome {
                    Ok(bytes) => report.good_bytes += bytes,
                    Err(finding) => report.add(finding),
                }
            }
            cursor = next;
        }
    }
}

impl Inner {
    /// Bytes of a piece that are right; what is wrong if they are not.
    async fn check_piece(&self, name: &Name, piece: &Piece) -> Result<u64, String> {
        let what = match self.medium.whole_piece(piece).await {
            Ok(Some(bytes)) => return Ok(bytes.len() as u64),
            Ok(None) => "do not match their sums".to_owned(),
            Err(error) => format!("can't be read: {error}"),
        };
        let (key, bucket) = (String::from_utf8_lossy(name.key()), name.bucket().0);
        let (group, device) = (self.seat.group.number, self.medium.volume.device());
        let first = piece.extents.first().map_or(0, |extent| extent.first);
        let length = piece.length;
        Err(format!(
            "`{key}` in bucket {bucket}: {length} bytes at block {first} of placement group {group} on device {device} {what}"
        ))
    }
}
