//! Which layers a view sees, and which blobs no view needs (docs/rfd/0024, "Layers"). Nothing here does I/O.
//!
//! ```text
//!   layers    0 ─ 1 ─ 2 ─ 3         snapshot "a" ended 1, snapshot "b" ended 3
//!                 └─ 4 ─ 5          a rollback to "a" began 4: Branch { layer: 4, base: 1 }
//!   views     a: 1 0     b: 3 2 1 0     the image: 5 4 1 0
//! ```
//!
//! A blob is needed if it is the newest of its part in some view. Any other blob is read, if at all, through pieces that newer blobs
//! do not own. When these pieces are copied to the newer blobs, the blob can be freed.

use smallvec::SmallVec;
use types::{Layer, Pieces};

use crate::registry::{Branch, View};

/// A layer with its ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lineage {
    /// Stretches of layers that follow each other: (oldest, newest), the newest stretch first.
    stretches: SmallVec<[(u32, u32); 1]>,
}

impl Lineage {
    /// Panics when a branch stands on itself or on a later layer: [`check`] refuses such records.
    pub(crate) fn of(layer: Layer, branches: &[Branch]) -> Lineage {
        let mut stretches = SmallVec::new();
        let mut newest = layer.0;
        while let Some(branch) = branches.iter().filter(|branch| branch.layer.0 <= newest).max_by_key(|branch| branch.layer) {
            assert!(branch.base < branch.layer, "a branch stands on an older layer");
            stretches.push((branch.layer.0, newest));
            newest = branch.base.0;
        }
        stretches.push((0, newest));
        Lineage { stretches }
    }

    pub(crate) fn contains(&self, layer: Layer) -> bool {
        self.stretches.iter().any(|(oldest, newest)| (*oldest..=*newest).contains(&layer.0))
    }
}

/// What a record says of layers, if it can be.
pub(crate) fn check(view: &View) -> Result<(), String> {
    let bad_branch = view.branches.iter().find(|branch| branch.base >= branch.layer || branch.layer > view.layer);
    if let Some(branch) = bad_branch {
        return Err(format!("layer {} of image {} stands on layer {}", branch.layer, view.id, branch.base));
    }
    match view.snapshots.iter().find(|snapshot| snapshot.layer >= view.layer) {
        Some(snapshot) => {
            Err(format!("snapshot {:?} of image {} is layer {}, which has not ended", snapshot.name, view.id, snapshot.layer))
        }
        None => Ok(()),
    }
}

/// The lineages of the image itself and of its snapshots.
pub(crate) fn views(view: &View) -> Vec<Lineage> {
    let snapshots = view.snapshots.iter().map(|snapshot| snapshot.layer);
    std::iter::once(view.layer).chain(snapshots).map(|layer| Lineage::of(layer, &view.branches)).collect()
}

/// What matters here of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) layer: Layer,
    pub(crate) owned: Pieces,
    pub(crate) data: Pieces,
}

/// What is to be done next in a part so that only needed blobs remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Copy pieces from one blob to a newer one.
    Fill {
        from: Layer,
        to: Layer,
        /// Those with content.
        filled: Pieces,
        /// Those that are zeros.
        zeroed: Pieces,
    },
    Free(Layer),
}

/// The next step for a part whose blobs are given, the newest first. None: all blobs are needed.
///
/// The newest blob that is not needed comes first, so that nothing is copied into a blob that is freed afterwards.
pub(crate) fn next_step(blobs: &[Held], views: &[Lineage], branches: &[Branch]) -> Option<Step> {
    let at = blobs.iter().position(|blob| !is_needed(blob.layer, blobs, views))?;
    let blob = &blobs[at];
    for newer in &blobs[..at] {
        let lacks = blob.owned & !newer.owned;
        if !lacks.is_empty() && relies_on(newer, blob, blobs, branches) {
            return Some(Step::Fill {
                from: blob.layer,
                to: newer.layer,
                filled: lacks & blob.data,
                zeroed: lacks & !blob.data,
            });
        }
    }
    Some(Step::Free(blob.layer))
}

/// Whether the blob of a layer is the newest of its part in some view. The blobs of the part are given, the newest first.
pub(crate) fn is_needed(layer: Layer, blobs: &[Held], views: &[Lineage]) -> bool {
    views.iter().any(|view| first_in(blobs, view).is_some_and(|first| first.layer == layer))
}

/// Whether pieces that `newer` does not own are looked for in `blob` next.
fn relies_on(newer: &Held, blob: &Held, blobs: &[Held], branches: &[Branch]) -> bool {
    let lineage = Lineage::of(newer.layer, branches);
    let older = blobs.iter().find(|other| other.layer < newer.layer && lineage.contains(other.layer));
    older.is_some_and(|older| older.layer == blob.layer)
}

fn first_in<'a>(blobs: &'a [Held], view: &Lineage) -> Option<&'a Held> {
    blobs.iter().find(|blob| view.contains(blob.layer))
}

#[cfg(test)]
mod tests;
