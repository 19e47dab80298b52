//! What lies below a clone: a layer of its parent image, which never changes again.
//!
//! The parent's holder may move pieces between the blobs that make up that layer, when it tidies after a removed snapshot: it fills
//! a newer blob, then frees the older one. A clone that finds a blob gone therefore loads the parent's rows again.

use std::ops::Range;
use std::sync::Arc;

use env::Env;
use futures_util::future::join_all;
use net::BoxFuture;
use parking_lot::Mutex;
use types::{BlobId, DeviceId, ImageId, LayerOf, Pieces};

use super::Outside;
use super::content::{Content, Part, append};
use super::error::{Fault, ImageError, OpenError};
use super::limits::{COPY_PATIENCE, COPY_PAUSE, MAX_CLONE_DEPTH, MAX_RELOADS};
use super::lineage::{self, Lineage};
use super::map::{Copies, Map, Source, blocks_around};
use crate::registry::View;
use crate::stores::{BlobAt, BlobRow, StoreError, Stores};

/// A layer of an older image.
pub trait Below: Send + Sync {
    /// Reads a range of a part. The content covers exactly the range.
    fn read(&self, index: u32, range: Range<u32>) -> BoxFuture<'_, Result<Content, ImageError>>;

    /// Which pieces of a part are owned there or further below, and which of these have content.
    fn pieces(&self, index: u32) -> (Pieces, Pieces);
}

/// An image's record and its blobs, for reading layers that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestor {
    pub view: View,
    pub rows: Vec<(DeviceId, Vec<BlobRow>)>,
}

/// Finds the images below clones.
pub trait Ancestors: Send + Sync {
    /// The record and the blobs as they are now; an error says why they can't be had.
    fn ancestor(&self, image: ImageId) -> BoxFuture<'_, Result<Ancestor, String>>;
}

/// A layer of an image that is read through the blobs that stand on devices.
pub(crate) struct Frozen {
    env: Env,
    stores: Arc<dyn Stores>,
    ancestors: Arc<dyn Ancestors>,
    layer: LayerOf,
    rows: Mutex<Arc<Rows>>,
    below: Option<Arc<dyn Below>>,
}

struct Rows {
    map: Map,
    lineage: Lineage,
}

/// The layers below an image, down to the first image that is no clone.
pub(crate) async fn load(outside: &Outside, parent: Option<LayerOf>) -> Result<Option<Arc<dyn Below>>, OpenError> {
    let mut layers: Vec<(LayerOf, Rows)> = Vec::new();
    let mut next = parent;
    while let Some(layer) = next {
        if layers.len() == MAX_CLONE_DEPTH {
            return Err(OpenError::Parent(format!("more than {MAX_CLONE_DEPTH} images lie below; flatten one of them")));
        }
        let (view, rows) = rows_of(&*outside.ancestors, layer).await.map_err(OpenError::Parent)?;
        next = view.parent;
        layers.push((layer, rows));
    }
    let mut below = None;
    for (layer, rows) in layers.into_iter().rev() {
        let rows = Mutex::new(Arc::new(rows));
        let Outside { env, stores, ancestors, .. } = outside.clone();
        let frozen = Frozen { env, stores, ancestors, layer, rows, below };
        below = Some(Arc::new(frozen) as Arc<dyn Below>);
    }
    Ok(below)
}

async fn rows_of(ancestors: &dyn Ancestors, layer: LayerOf) -> Result<(View, Rows), String> {
    let Ancestor { view, rows } = ancestors.ancestor(layer.image).await?;
    lineage::check(&view)?;
    if !view.snapshots.iter().any(|snapshot| snapshot.layer == layer.layer) {
        return Err(format!("image {} has no snapshot of layer {} any more", layer.image, layer.layer));
    }
    let map = Map::of(rows.iter().map(|(device, rows)| (*device, rows.as_slice())));
    let lineage = Lineage::of(layer.layer, &view.branches);
    Ok((view, Rows { map, lineage }))
}

impl Frozen {
    fn rows(&self) -> Arc<Rows> {
        self.rows.lock().clone()
    }

    async fn read_once(&self, rows: &Rows, index: u32, range: &Range<u32>) -> Result<Content, Fault> {
        let sources = rows.map.sources(index, range, &rows.lineage, self.below.is_some());
        let runs = join_all(sources.into_iter().map(|(run, source)| self.read_run(index, run, source))).await;
        let mut content = Content::new();
        for run in runs {
            run?.into_iter().for_each(|part| append(&mut content, part));
        }
        Ok(content)
    }

    async fn read_run(&self, index: u32, run: Range<u32>, source: Source) -> Result<Content, Fault> {
        let content = match (source, &self.below) {
            (Source::Blob(layer, copies), _) => {
                let id = BlobId { image: self.layer.image, index, layer };
                return self.read_copies(id, &copies, run).await;
            }
            (Source::Below, Some(below)) => below.read(index, run).await?,
            (Source::Below, None) | (Source::Zeros, _) => Content::from_iter([Part::Zeros(run.end - run.start)]),
        };
        Ok(content)
    }

    async fn read_copies(&self, id: BlobId, copies: &Copies, run: Range<u32>) -> Result<Content, Fault> {
        let mut deadline = None;
        loop {
            match self.ask_copies(id, copies, &run).await {
                Ok(content) => return Ok(content),
                Err(StoreError::Absent) => return Err(gone(copies)),
                Err(StoreError::Silent(_))
                    if self.env.now() < *deadline.get_or_insert_with(|| self.env.now() + COPY_PATIENCE) =>
                {
                    self.env.sleep(COPY_PAUSE).await;
                }
                Err(error) => return Err(ImageError::io(format!("image {}: {error}", id.image)).into()),
            }
        }
    }

    /// Asks one copy after the other. Absent: one of them is gone, and no other has answered. The rows are old then: the blob may have moved on where a
    /// copy is out.
    async fn ask_copies(&self, id: BlobId, copies: &Copies, run: &Range<u32>) -> Result<Content, StoreError> {
        let blocks = blocks_around(run);
        let (mut last, mut is_any_gone) = (StoreError::Absent, false);
        for place in copies {
            let at = BlobAt { block: place.block, id };
            match self.stores.read(place.device, None, at, blocks.start, blocks.end - blocks.start).await {
                Ok(bytes) => {
                    let skipped = (run.start - blocks.start) as usize;
                    return Ok(Content::from_iter([Part::Data(bytes.slice(skipped..skipped + run.len()))]));
                }
                Err(StoreError::Absent) => is_any_gone = true,
                Err(error) => last = error,
            }
        }
        Err(if is_any_gone { StoreError::Absent } else { last })
    }

    /// Loads the rows again, unless another read did so since `seen`.
    async fn reload(&self, seen: &Arc<Rows>) -> Result<(), ImageError> {
        if !Arc::ptr_eq(seen, &self.rows()) {
            return Ok(());
        }
        let (_, rows) = rows_of(&*self.ancestors, self.layer).await.map_err(ImageError::io)?;
        *self.rows.lock() = Arc::new(rows);
        Ok(())
    }
}

fn gone(copies: &Copies) -> Fault {
    match copies.first() {
        Some(place) => Fault::Absent(place.device),
        None => ImageError::io("a blob has no copy left").into(),
    }
}

impl Below for Frozen {
    fn read(&self, index: u32, range: Range<u32>) -> BoxFuture<'_, Result<Content, ImageError>> {
        Box::pin(async move {
            for _ in 0..MAX_RELOADS {
                let rows = self.rows();
                match self.read_once(&rows, index, &range).await {
                    Err(Fault::Absent(_)) => self.reload(&rows).await?,
                    done => return done.map_err(ImageError::from),
                }
            }
            Err(ImageError::io(format!("blobs of image {} are not where its devices say", self.layer.image)))
        })
    }

    fn pieces(&self, index: u32) -> (Pieces, Pieces) {
        let rows = self.rows();
        rows.map.seen(index, &rows.lineage, self.below.as_deref())
    }
}
