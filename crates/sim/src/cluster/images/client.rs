//! Clients of images at all nodes.

use super::super::world::{Running, World};
use super::history::{Ended, ImageHistories, Known, What};
use super::pattern::{self, BLOCK_BYTES, Sectors};
use super::{BLOCKS, WINDOWS};
use crate::draw::Draw;
use block::OpenImage;
use block::image::{Content, ImageError, Part};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::PIECE_BYTES;

/// How long a client rests after a call that failed, or where no node serves the image.
const AFTER_FAILURE: Duration = Duration::from_millis(300);
/// Longest time after which a client drops a call.
const IMPATIENCE: Duration = Duration::from_millis(15);

pub struct ImageUser {
    pub world: Arc<World>,
    pub histories: Arc<ImageHistories>,
    pub draw: Draw,
    pub is_over: Arc<AtomicBool>,
}

/// What a content holds, block by block.
pub fn blocks_of(content: Content, first: u32) -> Result<BTreeMap<u32, Sectors>, String> {
    let mut bytes = Vec::new();
    for part in content {
        match part {
            Part::Data(data) => bytes.extend_from_slice(&data),
            Part::Zeros(zeros) => bytes.resize(bytes.len() + zeros as usize, 0),
        }
    }
    let read = |(at, bytes): (usize, &[u8])| {
        let block = first + at as u32;
        Ok((block, pattern::read(bytes, block)?))
    };
    bytes.chunks(BLOCK_BYTES).enumerate().map(read).collect()
}

fn bytes_of(blocks: &Range<u32>) -> (u64, u64) {
    let bytes = BLOCK_BYTES as u64;
    (u64::from(blocks.start) * bytes, u64::from(blocks.end - blocks.start) * bytes)
}

/// Whole pieces around a range.
fn pieces_around(blocks: &Range<u32>) -> Range<u32> {
    let blocks_of_piece = PIECE_BYTES / BLOCK_BYTES as u32;
    blocks.start / blocks_of_piece * blocks_of_piece..blocks.end.next_multiple_of(blocks_of_piece).min(BLOCKS)
}

impl ImageUser {
    pub async fn run(mut self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let images = self.histories.images();
            let image = &images[self.draw.below(images.len() as u64) as usize];
            let rest = match self.open_anywhere(image).await {
                Some((node, open)) => !self.step(&node, image, &open).await,
                None => true,
            };
            let think = self.draw.duration(self.world.scenario.workload.think);
            self.world.env.sleep(if rest { AFTER_FAILURE } else { think }).await;
        }
    }

    /// The image at one of the nodes that serve it.
    pub async fn open_anywhere(&mut self, image: &Known) -> Option<(Running, Arc<OpenImage>)> {
        let running = self.world.running();
        let serving: Vec<&Running> =
            running.iter().filter(|node| node.door.as_ref().is_some_and(|door| door.offered(&image.name).is_some())).collect();
        if serving.is_empty() {
            return None;
        }
        let node = serving[self.draw.below(serving.len() as u64) as usize];
        let offered = node.door.as_ref()?.offered(&image.name)?;
        let name = image.name.clone();
        let open = self.ask(node, None, async move { offered.open(&name).await }).await?;
        Some((node.clone(), open.ok()?))
    }

    /// The outcome of a call at a node, unless the node's process ends first, or the client has no more patience.
    pub async fn ask<T>(&self, node: &Running, patience: Option<Duration>, call: impl Future<Output = T>) -> Option<T> {
        match self.world.ask_node(node, patience, call).await {
            Ok(outcome) => outcome,
            Err(what) => {
                self.histories.violate(what);
                None
            }
        }
    }

    fn blocks(&mut self) -> Range<u32> {
        let window = &WINDOWS[self.draw.below(WINDOWS.len() as u64) as usize];
        let start = window.start + self.draw.below((window.end - window.start).into()) as u32;
        let most = if self.draw.percent(70) { 3 } else { window.end - start };
        start..(start + 1 + self.draw.below(most.into()) as u32).min(window.end)
    }

    /// Whether the call was answered.
    async fn step(&mut self, node: &Running, image: &Known, open: &Arc<OpenImage>) -> bool {
        let blocks = self.blocks();
        let patience = self.draw.percent(4).then(|| self.draw.duration(IMPATIENCE));
        match self.draw.below(100) {
            0..=39 => self.read(node, image, open, blocks).await,
            40..=83 => self.write(node, image, open, blocks, patience).await,
            84..=91 => {
                let (keeps, (offset, length)) = (self.draw.percent(50), bytes_of(&blocks));
                let call = open.image().write_zeros(offset, length, keeps);
                self.clear(node, image, blocks, patience, call).await
            }
            92..=96 => {
                let blocks = pieces_around(&blocks);
                let (offset, length) = bytes_of(&blocks);
                self.clear(node, image, blocks, patience, open.image().trim(offset, length)).await
            }
            _ => matches!(self.ask(node, patience, open.image().flush()).await, Some(Ok(()))),
        }
    }

    pub async fn read(&self, node: &Running, image: &Known, open: &Arc<OpenImage>, blocks: Range<u32>) -> bool {
        let call = self.histories.call(image.number, blocks.clone(), What::Read(Sectors::default()));
        let (offset, length) = bytes_of(&blocks);
        match self.ask(node, None, open.image().read(offset, length as u32)).await {
            Some(Ok(content)) => match blocks_of(content, blocks.start) {
                Ok(values) => {
                    self.histories.end_read(&call, &values);
                    self.check_others(image, &values);
                    return true;
                }
                Err(what) => self.histories.violate(format!("{}: {what}", image.name)),
            },
            other => self.failed(other),
        }
        self.histories.end(&call, Ended::Withdrawn);
        false
    }

    /// Blocks outside the windows were never written.
    fn check_others(&self, image: &Known, values: &BTreeMap<u32, Sectors>) {
        for (block, found) in values {
            if super::history::watched(*block..*block + 1).next().is_none() && *found != Sectors::default() {
                self.histories.violate(format!("{}: block {block}, which was never written, holds {found:?}", image.name));
            }
        }
    }

    pub async fn write(
        &self,
        node: &Running,
        image: &Known,
        open: &Arc<OpenImage>,
        blocks: Range<u32>,
        patience: Option<Duration>,
    ) -> bool {
        let value = self.histories.next_value();
        let mut bytes = Vec::new();
        blocks.clone().for_each(|block| pattern::fill(&mut bytes, value, block));
        let call = self.histories.call(image.number, blocks.clone(), What::Write(value));
        let outcome = self.ask(node, patience, open.image().write(bytes_of(&blocks).0, Bytes::from(bytes))).await;
        self.changed(&call, outcome)
    }

    async fn clear(
        &self,
        node: &Running,
        image: &Known,
        blocks: Range<u32>,
        patience: Option<Duration>,
        clear: impl Future<Output = Result<(), ImageError>>,
    ) -> bool {
        let call = self.histories.call(image.number, blocks, What::Write(0));
        let outcome = self.ask(node, patience, clear).await;
        self.changed(&call, outcome)
    }

    fn changed(&self, call: &super::history::CallOf, outcome: Option<Result<(), ImageError>>) -> bool {
        let is_done = matches!(outcome, Some(Ok(())));
        self.histories.end(call, if is_done { Ended::Done } else { Ended::Lost });
        if !is_done {
            self.failed(outcome);
        }
        is_done
    }

    fn failed<T>(&self, outcome: Option<Result<T, ImageError>>) {
        use block::image::ImageErrorKind::{Closed, Invalid, Io, NoSpace, Superseded};
        let what = match outcome {
            None => "client: calls that ended with their node, or were dropped",
            Some(Ok(_)) => return,
            Some(Err(error)) => {
                self.histories.note(format_args!("failed: {error}"));
                match error.kind {
                    NoSpace => "client: no space",
                    Io => "client: outcomes unknown",
                    Invalid => "client: beyond the end",
                    Superseded => "client: at a former holder",
                    Closed => "client: at a closed image",
                }
            }
        };
        self.histories.count(what);
    }
}
