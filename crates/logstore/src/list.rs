//! Lists: names of one bucket in byte order, merged over the layers of the key list (RFD 2, decision 14; RFD 7, decision 3).

use crate::names::{Layers, Merged, Merger, Missing, ScanBlocks};
use crate::store::Inner;
use bytes::Bytes;
use engine::{EngineError, ListItem, ListPage, ListQuery, ListedObject, ListedUpload, UploadPage, UploadQuery};
use format::entry::EntryState;
use format::record::{EntryName, Space, split_compound};
use smallvec::SmallVec;
use types::{BucketId, UploadId};

/// What a visitor wants next.
pub(crate) enum Step {
    Next,
    /// Go on at the first name that is not less.
    Seek(Vec<u8>),
    Stop,
}

/// Sees each live name once, in order.
pub(crate) type Visitor<'a> = dyn FnMut(&[u8], &Merged) -> Step + Send + 'a;

/// Which names to scan.
pub(crate) struct Scope {
    pub bucket: BucketId,
    pub space: Space,
    /// Only names that begin with this: a scan ends behind them, however many deleted names follow.
    pub prefix: Vec<u8>,
}

/// How far a scan has come, so that it can go on after a block was loaded.
struct Progress {
    from: Vec<u8>,
    /// `from` itself is done with: shown, or passed over because it is deleted.
    done: bool,
}

impl Inner {
    /// Shows the live names of a scope that are not less than `from` to the visitor.
    pub(crate) async fn scan(&self, scope: &Scope, from: Vec<u8>, visit: &mut Visitor<'_>) -> Result<(), EngineError> {
        let mut progress = Progress { from: from.max(scope.prefix.clone()), done: false };
        let mut blocks = ScanBlocks::new(&self.names.cache);
        loop {
            let layers = self.names.layers();
            match scan_loaded(&layers, &blocks, scope, &mut progress, visit) {
                Ok(()) => return Ok(()),
                Err(Missing { run, block }) => {
                    let rows = run.rows(self, block).await;
                    // What was read of a run that was merged meanwhile does not count.
                    if self.names.has_layers(std::slice::from_ref(&run)) {
                        blocks.insert(run.id(), block, rows?);
                    }
                }
            }
        }
    }

    /// One page of objects.
    pub(crate) async fn list(&self, query: &ListQuery) -> Result<ListPage, EngineError> {
        let mut page = ListPage::default();
        if query.max_items == 0 {
            return Ok(page);
        }
        let scope = Scope { bucket: query.bucket, space: Space::Object, prefix: query.prefix.to_vec() };
        let mut visit = |name: &[u8], row: &Merged| {
            let rolled_up = roll_up(name, query.prefix.len(), &query.delimiter);
            let item = rolled_up.unwrap_or(name);
            if *item > *query.start_after {
                if page.items.len() == query.max_items {
                    page.truncated = true;
                    return Step::Stop;
                }
                page.items.push(item_of(item, rolled_up.is_some(), row));
            }
            match rolled_up {
                Some(prefix) => successor(prefix).map_or(Step::Stop, Step::Seek),
                None => Step::Next,
            }
        };
        self.scan(&scope, query.start_after.to_vec(), &mut visit).await?;
        Ok(page)
    }

    /// Whether a bucket has neither objects nor uploads.
    pub(crate) async fn is_bucket_empty(&self, bucket: BucketId) -> Result<bool, EngineError> {
        let mut empty = true;
        for space in [Space::Object, Space::Version, Space::Upload] {
            let mut visit = |name: &[u8], _: &Merged| {
                let is_ending = || self.background.ending(&upload_named(bucket, name)).is_some();
                if space == Space::Upload && is_ending() {
                    return Step::Next;
                }
                empty = false;
                Step::Stop
            };
            let scope = Scope { bucket, space, prefix: Vec::new() };
            self.scan(&scope, Vec::new(), &mut visit).await?;
        }
        Ok(empty)
    }

    /// One page of open uploads.
    pub(crate) async fn uploads(&self, query: &UploadQuery) -> Result<UploadPage, EngineError> {
        let mut page = UploadPage::default();
        if query.max_items == 0 {
            return Ok(page);
        }
        let after = query.after.as_ref().map(|(key, upload)| {
            // Without an id: after every upload of the key.
            EntryName::upload(query.bucket, key, upload.unwrap_or(UploadId([0xff; 16]))).name
        });
        let mut invalid = None;
        let from = after.as_ref().filter(|after| ***after > *query.prefix).unwrap_or(&query.prefix).to_vec();
        // Names of uploads are escaped keys, so the prefix is compared with the key below.
        let scope = Scope { bucket: query.bucket, space: Space::Upload, prefix: Vec::new() };
        let mut last_prefix: Option<Vec<u8>> = None;
        let is_ending = |name: &[u8]| self.background.ending(&upload_named(query.bucket, name)).is_some();
        let mut visit = |name: &[u8], row: &Merged| {
            let (key, suffix) = match split_compound(Space::Upload, name) {
                Ok(parts) => parts,
                Err(error) => {
                    invalid = Some(error);
                    return Step::Stop;
                }
            };
            if !key.starts_with(&query.prefix) {
                return if *key > *query.prefix { Step::Stop } else { Step::Next };
            }
            if after.as_ref().is_some_and(|after| name <= after) || is_ending(name) {
                return Step::Next;
            }
            let rolled_up = roll_up(&key, query.prefix.len(), &query.delimiter);
            // Shown on this page already, or on the one that ended with it.
            let is_past = |prefix: &[u8]| {
                Some(prefix) == last_prefix.as_deref() || query.after.as_ref().is_some_and(|(key, _)| *prefix <= **key)
            };
            if rolled_up.is_some_and(is_past) {
                return Step::Next;
            }
            if page.uploads.len() + page.prefixes.len() == query.max_items {
                page.truncated = true;
                return Step::Stop;
            }
            match rolled_up {
                Some(prefix) => {
                    page.prefixes.push(Bytes::copy_from_slice(prefix));
                    last_prefix = Some(prefix.to_vec());
                }
                None => page.uploads.push(ListedUpload {
                    key: Bytes::copy_from_slice(&key),
                    upload: UploadId(suffix.try_into().expect("split_compound checked the length")),
                    initiated_ms: row.modified_ms,
                    storage_class: row.storage_class,
                    checksum: row.checksum,
                }),
            }
            Step::Next
        };
        self.scan(&scope, from, &mut visit).await?;
        match invalid {
            Some(error) => Err(EngineError::Corrupt { detail: error.to_string() }),
            None => Ok(page),
        }
    }
}

/// Scans as far as the loaded blocks reach.
fn scan_loaded(
    layers: &Layers,
    blocks: &ScanBlocks<'_>,
    scope: &Scope,
    progress: &mut Progress,
    visit: &mut Visitor<'_>,
) -> Result<(), Missing> {
    let guards: SmallVec<[_; 2]> = layers.memtables.iter().map(|memtable| memtable.read()).collect();
    let maps = guards.iter().map(|guard| &**guard);
    let mut merger = Merger::new(maps, &layers.runs, blocks, (scope.bucket, scope.space), &progress.from)?;
    let mut name = Vec::new();
    while let Some(row) = merger.next(&mut name)? {
        if !name.starts_with(&scope.prefix) {
            return Ok(());
        }
        if progress.done && name == progress.from {
            continue;
        }
        let step = if row.state == EntryState::Live { visit(&name, &row) } else { Step::Next };
        progress.from.clone_from(&name);
        progress.done = true;
        match step {
            Step::Next => {}
            Step::Seek(target) => {
                progress.from = target;
                progress.done = false;
                merger.seek(&progress.from)?;
            }
            Step::Stop => return Ok(()),
        }
    }
    Ok(())
}

fn upload_named(bucket: BucketId, name: &[u8]) -> EntryName {
    EntryName { bucket, space: Space::Upload, name: Bytes::copy_from_slice(name) }
}

fn item_of(item: &[u8], rolled_up: bool, row: &Merged) -> ListItem {
    let item = Bytes::copy_from_slice(item);
    if rolled_up {
        return ListItem::Prefix(item);
    }
    let Merged { length, etag, modified_ms, storage_class, checksum, .. } = *row;
    ListItem::Object(ListedObject { key: item, length, etag, modified_ms, storage_class, checksum })
}

/// The part of a name up to and with the first delimiter after the prefix.
fn roll_up<'a>(name: &'a [u8], prefix_bytes: usize, delimiter: &[u8]) -> Option<&'a [u8]> {
    if delimiter.is_empty() {
        return None;
    }
    let rest = &name[prefix_bytes..];
    let at = rest.windows(delimiter.len()).position(|window| window == delimiter)?;
    Some(&name[..prefix_bytes + at + delimiter.len()])
}

/// The least name that is greater than all names with this prefix; `None` if there is none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}
