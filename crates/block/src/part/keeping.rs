//! Keepers: an image that nothing uses, and whose copies are not as they should be, is looked after by one node.
//!
//! ```text
//!   closed, copies lack ── this node's turn ──► held by a keeper ── copies are as they should be, or its time is over ──► closed
//!                                                     └── anything opens it: the keeper is over
//! ```
//!
//! An image that the record says this node has open, and that nothing here uses, gets a keeper too: its close was not noted, or a former process had it, whose
//! place was ended before the image was open again. Else no other node could open it.
//!
//! A keeper serves nothing and changes nothing that clients see. So what opens the image need not wait for it. Nodes may disagree for a while which
//! of them is to keep an image; the manager lets one of them.

use super::opened::Opened;
use super::tenure::TENURE_OVER;
use crate::image::Placement;
use futures_util::stream::{self, StreamExt};
use manager::{ImageRecord, Snapshot};
use std::sync::Arc;
use std::time::Duration;
use types::NodeId;

/// Between two looks at all images, and between two looks at one that is kept.
const LOOK: Duration = Duration::from_secs(5);
/// For how long an image is kept before others get its turn: longer than copies wait for a device that may come back.
const TURN: Duration = Duration::from_secs(1800);
/// Images that are kept at once.
const MAX_KEPT: usize = 16;

impl Opened {
    /// Keeps images, some at a time, for as long as the node lives.
    pub async fn keep_closed(&self) {
        loop {
            self.around.env.sleep(LOOK).await;
            let state = self.around.manager.snapshot();
            let wanting: Vec<Arc<ImageRecord>> =
                state.images().filter(|image| self.is_to_keep(&state, image)).cloned().collect();
            let keep = |record: Arc<ImageRecord>| async move {
                if let Err(reason) = self.keep_image(&record).await {
                    tracing::debug!(image = record.name, reason, "a closed image is not looked after now");
                }
            };
            stream::iter(wanting).for_each_concurrent(MAX_KEPT, keep).await;
        }
    }

    fn is_to_keep(&self, state: &Snapshot, image: &ImageRecord) -> bool {
        let is_free = match image.holder {
            None => true,
            // Of this node's former process, or of a node that is gone.
            Some(holder) => holder.is_keeper && (holder.node == self.around.me || self.is_gone(holder.node)),
        };
        let can_be_opened = image.removed_ms.is_none() && !image.has_losses;
        let is_turn = || self.lacks(state, image) && self.keeper_of(state, image) == Some(self.around.me);
        can_be_opened && (self.is_left_over(image) || is_free && is_turn())
    }

    /// Whether this node is noted as the holder, and nothing here uses the image, or waits for it.
    fn is_left_over(&self, image: &ImageRecord) -> bool {
        let is_mine = image.holder.is_some_and(|holder| !holder.is_keeper && holder.node == self.around.me);
        is_mine && !self.is_used(image.id)
    }

    /// Whether a keeper could do something for the copies of an image.
    fn lacks(&self, state: &Snapshot, image: &ImageRecord) -> bool {
        let hosts = self.placement.host_count().min(usize::from(image.copies));
        let usable = self.placement.devices();
        let comes_back = image.devices.iter().any(|used| used.out_since.is_some() && usable.contains(&used.device));
        let is_short = usize::from(image.redundancy.hosts) < hosts
            || usize::from(image.redundancy.devices) < usable.len().min(usize::from(image.copies));
        let is_leaving = |device| self.placement.is_leaving(device) && state.device(device).is_some();
        let leaves = image.devices.iter().any(|used| used.out_since.is_none() && is_leaving(used.device));
        image.copies > 1 && (comes_back || is_short || leaves || !image.is_settled)
    }

    /// The node whose turn it is: one of those that answer, by the image's number.
    fn keeper_of(&self, state: &Snapshot, image: &ImageRecord) -> Option<NodeId> {
        let silent = (self.around.silent)();
        let nodes: Vec<NodeId> = state.nodes().map(|node| node.id).filter(|node| !silent.contains(node)).collect();
        nodes.get(image.id.0 as usize % nodes.len().max(1)).copied()
    }

    async fn keep_image(&self, record: &ImageRecord) -> Result<(), String> {
        self.check_enough_answer(record)?;
        let (env, manager) = (&self.around.env, &self.around.manager);
        let expected = record.holder.map(|_| record.token);
        let opened = manager.keep_image(record.id, self.around.me, expected).await.map_err(|error| error.to_string())?;
        if !opened.is_settled {
            // After an unlock. What opens the image next does not wait, if it was closed in order before.
            env.sleep(TENURE_OVER).await;
        }
        let image = self.take_over(&opened).await?;
        env::mark("images: a closed image kept");
        let until = env.now() + TURN;
        loop {
            if let Err(error) = image.keep_once().await {
                tracing::debug!(image = record.name, %error, "a closed image is looked after again in a moment");
            }
            let state = manager.snapshot();
            let is_held = |now: &&Arc<ImageRecord>| now.token == opened.token && now.holder.is_some();
            if image.has_ended() || state.image(record.id).filter(is_held).is_none() {
                env::mark("images: a keeper that made way");
                return Ok(());
            }
            // Copies that may differ are compared by now: closing tells.
            let lacks = state.image(record.id).is_some_and(|now| {
                self.lacks(&state, &ImageRecord { is_settled: image.is_settled(), ..ImageRecord::clone(now) })
            });
            if !lacks || env.now() >= until {
                break;
            }
            env.sleep(LOOK).await;
        }
        self.close(&image).await;
        Ok(())
    }
}
