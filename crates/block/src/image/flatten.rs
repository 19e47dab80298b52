//! A clone that needs its parent no more: what it reads from there becomes its own.
//!
//! Content is copied in short runs, each under the lock of its range, so that requests go on. What is there already is passed over: a flattening
//! that ended half-way goes on where it was. Zeros need no copy, since what nothing owns reads as zeros once there is no parent.

use std::ops::Range;

use bytes::BytesMut;
use types::{BLOB_BYTES, BlobId, Layer, Pieces};

use super::Image;
use super::content::extend;
use super::error::{Fault, ImageError};
use super::limits::FILL_BYTES;
use super::write::Space;
use crate::stores::Change;

/// The next run of a part to copy.
struct Plan {
    run: Option<Range<u32>>,
    layer: Layer,
    has_blob: bool,
}

impl Image {
    /// Copies all that the parent has and the image has not, then has the record forget the parent. The image has no snapshots: these read
    /// from the parent too, and clones of them.
    pub async fn flatten(&self) -> Result<(), ImageError> {
        let _admin = self.admin.lock().await;
        self.check_open()?;
        let view = self.view();
        if view.parent.is_none() {
            return Err(ImageError::invalid("the image is no clone: there is nothing to flatten"));
        }
        if !view.snapshots.is_empty() {
            return Err(ImageError::invalid("an image with snapshots can't be flattened: remove them first"));
        }
        for index in 0..view.size_bytes.div_ceil(u64::from(BLOB_BYTES)) {
            self.flatten_part(index as u32).await?;
        }
        // A request that was planned with the parent ends before it is gone.
        let gate = self.close_gate().await?;
        let registry = &*self.outside.registry;
        let view = self.decide(|| registry.flatten(self.id, self.token)).await?;
        self.adopt(view)?;
        *self.below.lock() = None;
        drop(gate);
        Ok(())
    }

    async fn flatten_part(&self, index: u32) -> Result<(), ImageError> {
        let mut space = Space::default();
        loop {
            let gate = self.gate.read().await;
            match self.flatten_run(index, &space).await {
                Ok(false) => return Ok(()),
                Ok(true) => {}
                Err(fault) => {
                    drop(gate);
                    space.wait(self, fault).await?;
                }
            }
        }
    }

    /// Copies one run; false when there is none.
    async fn flatten_run(&self, index: u32, space: &Space) -> Result<bool, Fault> {
        let locked = |plan: &Plan| match &plan.run {
            None => 0..0,
            Some(run) if plan.has_blob => run.clone(),
            Some(_) => 0..BLOB_BYTES,
        };
        let Some(below) = self.below() else { return Ok(false) };
        let (guard, plan) = self.claim(index, || self.plan_flatten(index, below.pieces(index).1), locked).await?;
        let Some(run) = plan.run else { return Ok(false) };
        let mut bytes = BytesMut::with_capacity(run.len());
        extend(&mut bytes, &below.read(index, run.clone()).await?);
        let change = Change { offset: run.start, content: bytes.freeze(), filled: Pieces::within(run), ..Change::default() };
        if plan.has_blob {
            self.change(BlobId { image: self.id, index, layer: plan.layer }, change).await?;
        } else {
            self.create(index, plan.layer, change, &space.full).await?;
        }
        drop(guard);
        Ok(true)
    }

    fn plan_flatten(&self, index: u32, below: Pieces) -> Plan {
        let state = self.state.lock();
        let layer = state.view.layer;
        let (owned, _) = state.map.seen(index, &state.lineage, None);
        let run = (below & !owned).runs().next().map(|run| run.start..run.end.min(run.start + FILL_BYTES));
        Plan { run, layer, has_blob: state.map.blob(index, layer).is_some() }
    }
}
