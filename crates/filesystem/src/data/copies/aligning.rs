//! Alignment: a copy of an extent is made like the primary's own, by their checksums.
//!
//! ```text
//!   own    [ a ][ b ][ c ][ d ]          own   [ a ][ b ]
//!   copy   [ a ][ x ]                    copy  [ a ][ b ][ y ]
//!               └─ overwrite └─ append                    └─ cut
//! ```
//!
//! What is damaged at the primary counts as another copy in sync has it. What none of them has is damaged for good: a copy that is rebuilt has nothing in its place,
//! and never what it had before.
//!
//! The caller sees to it that none of these blocks changes meanwhile, at the primary's own copy or at the other. What was given back at the primary is given back at the
//! copy; what was given back at the copy alone is on the sweeper's list still.

use std::ops::Range;

use bytes::Bytes;
use types::NodeId;

use super::ask::{Answer, Ask, Change, ChangeWhat, Copy, CopyError, What};
use super::elsewhere::Counting;
use super::limits::{ALIGN_PATIENCE, PIECE, SUMS};
use super::members::Seat;
use super::reign::{Over, Reign};
use super::standing::Role;
use super::{BlockSum, ExtentSums};
use crate::data::DataError;
use crate::ids::{BLOCK_BYTES as BLOCK, ExtentId};

/// Why a copy was not aligned.
#[derive(Debug, thiserror::Error)]
pub enum AlignError {
    #[error("the primary's own copy: {0}")]
    Own(DataError),
    #[error(transparent)]
    There(CopyError),
    #[error("the primary's own copy is damaged, and the one of node {0} is not heard: {1}")]
    Unknown(NodeId, CopyError),
    #[error("this node is not the primary any more")]
    Over,
    #[error("the rebuild is not needed any more")]
    GivenUp,
}

impl From<Over> for AlignError {
    fn from(_: Over) -> AlignError {
        AlignError::Over
    }
}

impl From<CopyError> for AlignError {
    fn from(error: CopyError) -> AlignError {
        AlignError::There(error)
    }
}

impl Reign {
    /// Makes blocks of a copy's extent as they are here. A range without an end takes care of the length too.
    pub(super) async fn align(&self, seat: &Seat, extent: ExtentId, blocks: Range<u64>) -> Result<(), AlignError> {
        let Some(own) = self.own().sums(extent, blocks.start, 0) else {
            return self.change_there(seat, extent, ChangeWhat::Remove).await;
        };
        let there = match self.sums_there(seat, extent, blocks.start, 0).await? {
            Some(there) => there.len,
            None => {
                self.change_there(seat, extent, ChangeWhat::Create { data: Bytes::new() }).await?;
                0
            }
        };
        let is_open = blocks.end == u64::MAX;
        if is_open && there > own.len {
            env::mark("files: a longer copy cut");
            self.change_there(seat, extent, ChangeWhat::Cut { len: own.len }).await?;
        }
        let common = there.min(own.len);
        self.align_common(seat, extent, blocks.start..blocks.end.min(common.div_ceil(BLOCK)), common).await?;
        if is_open && there < own.len {
            let there = self.cut_absent_tail(seat, extent, there).await?;
            self.append_rest(seat, extent, there..own.len).await?;
        }
        Ok(())
    }

    /// Blocks that both have, in bytes below `end`.
    async fn align_common(&self, seat: &Seat, extent: ExtentId, blocks: Range<u64>, end: u64) -> Result<(), AlignError> {
        let mut at = blocks.start;
        while at < blocks.end {
            self.check()?;
            let most = (blocks.end - at).min(SUMS as u64) as usize;
            let there = self.sums_there(seat, extent, at, most).await?.map_or_else(Vec::new, |sums| sums.blocks);
            let own = self.own().sums(extent, at, most).map_or_else(Vec::new, |sums| sums.blocks);
            let count = own.len().min(there.len());
            if count == 0 {
                return Ok(());
            }
            for (range, what) in differences(&own[..count], &there[..count]) {
                let bytes = (at + range.start) * BLOCK..((at + range.end) * BLOCK).min(end);
                match what {
                    Difference::Content => {
                        env::mark("files: blocks that differed made alike");
                        self.copy(seat, extent, bytes).await?;
                    }
                    Difference::Gone => self.punch_there(seat, extent, bytes).await?,
                }
            }
            at += count as u64;
        }
        Ok(())
    }

    /// An append can't go on in a block that was given back: such a last block is cut off. Where the copy ends then.
    async fn cut_absent_tail(&self, seat: &Seat, extent: ExtentId, len: u64) -> Result<u64, AlignError> {
        let start = len / BLOCK * BLOCK;
        if start == len {
            return Ok(len);
        }
        let last = self.sums_there(seat, extent, len / BLOCK, 1).await?.and_then(|sums| sums.blocks.first().copied());
        if last != Some(BlockSum::Absent) {
            return Ok(len);
        }
        self.change_there(seat, extent, ChangeWhat::Cut { len: start }).await?;
        Ok(start)
    }

    /// Writes bytes of the primary's own copy over those of another.
    async fn copy(&self, seat: &Seat, extent: ExtentId, bytes: Range<u64>) -> Result<(), AlignError> {
        let mut at = bytes.start;
        while at < bytes.end {
            self.check()?;
            let end = bytes.end.min(at + PIECE);
            match self.own().read(extent, at, (end - at) as usize).await {
                Ok(data) => self.change_there(seat, extent, ChangeWhat::Overwrite { offset: at, data }).await?,
                Err(DataError::Damaged { .. }) => self.copy_blocks(seat, extent, at..end).await?,
                Err(error) => return Err(AlignError::Own(error)),
            }
            at = end;
        }
        Ok(())
    }

    /// The same, block by block, where some are damaged here.
    async fn copy_blocks(&self, seat: &Seat, extent: ExtentId, bytes: Range<u64>) -> Result<(), AlignError> {
        for part in blocks_of(bytes) {
            self.check()?;
            match self.counting_block(seat, extent, &part).await? {
                Counting::Of(node, _) if node == seat.node => {}
                Counting::Of(_, data) => {
                    self.change_there(seat, extent, ChangeWhat::Overwrite { offset: part.start, data }).await?;
                }
                // It has said itself that it has it not.
                _ if self.role(seat.node) == Role::InSync => {}
                _ => self.give_up_there(seat, extent, part.start).await?,
            }
        }
        Ok(())
    }

    /// What counts of bytes of one block.
    async fn counting_block(&self, seat: &Seat, extent: ExtentId, bytes: &Range<u64>) -> Result<Counting, AlignError> {
        let len = (bytes.end - bytes.start) as usize;
        match self.own().read(extent, bytes.start, len).await {
            Ok(data) => return Ok(Counting::Of(self.realm.me, data)),
            Err(DataError::Damaged { .. }) => {}
            Err(error) => return Err(AlignError::Own(error)),
        }
        self.may_decide(seat, extent, bytes.start)?;
        match self.counting(seat, extent, bytes.start, len).await {
            Counting::Unknown(node, error) => Err(AlignError::Unknown(node, error)),
            Counting::Of(node, data) => {
                self.write_own(extent, bytes.start, data.clone()).await?;
                Ok(Counting::Of(node, data))
            }
            Counting::Lost => Ok(Counting::Lost),
        }
    }

    /// What counts is written here too. Or the checksum would go on to say what this copy had: a copy that is rebuilt and has that would be left so.
    async fn write_own(&self, extent: ExtentId, offset: u64, data: Bytes) -> Result<(), AlignError> {
        let what = What::Change(Change { extent, what: ChangeWhat::Overwrite { offset, data } });
        match self.realm.own.ask(Ask { pass: self.own_pass(), boot: self.realm.own.boot(), what }).await {
            // The other copy ends within the block: the rest of it is damaged here.
            Ok(_) | Err(CopyError::Data(DataError::Damaged { .. })) => Ok(()),
            Err(CopyError::Data(error)) => Err(AlignError::Own(error)),
            Err(CopyError::NotAdmitted(_) | CopyError::Silent(_)) => Err(AlignError::Over),
        }
    }

    /// Changes may begin during a first comparison: what a copy in sync has then it may not have any more.
    fn may_decide(&self, seat: &Seat, extent: ExtentId, offset: u64) -> Result<(), AlignError> {
        let standing = self.standing.lock();
        let is_last_word = standing.role(seat.node) == Role::InSync || standing.holds(extent);
        if is_last_word { Ok(()) } else { Err(AlignError::Own(DataError::Damaged { extent, offset })) }
    }

    async fn give_up_there(&self, seat: &Seat, extent: ExtentId, offset: u64) -> Result<(), AlignError> {
        let block = offset / BLOCK;
        tracing::error!(?extent, block, node = %seat.node, "a block of a file is damaged on all copies in sync: it is given up");
        self.punch_there(seat, extent, block * BLOCK..(block + 1) * BLOCK).await
    }

    async fn punch_there(&self, seat: &Seat, extent: ExtentId, bytes: Range<u64>) -> Result<(), AlignError> {
        self.change_there(seat, extent, ChangeWhat::Punch { offset: bytes.start, len: bytes.end - bytes.start }).await
    }

    /// Appends what a copy lacks. What was given back here is there for a moment, as zeros.
    async fn append_rest(&self, seat: &Seat, extent: ExtentId, bytes: Range<u64>) -> Result<(), AlignError> {
        let mut at = bytes.start;
        while at < bytes.end {
            self.check()?;
            let first = at / BLOCK;
            let most = (PIECE / BLOCK) as usize;
            let own = self.own().sums(extent, first, most).map_or_else(Vec::new, |sums| sums.blocks);
            let Some(is_gone) = own.first().map(|sum| *sum == BlockSum::Absent) else { return Ok(()) };
            let same = own.iter().take_while(|sum| (**sum == BlockSum::Absent) == is_gone).count() as u64;
            let end = bytes.end.min((first + same) * BLOCK);
            let len = (end - at) as usize;
            let own = if is_gone { Ok(vec![0; len].into()) } else { self.own().read(extent, at, len).await };
            match own {
                Ok(data) => self.change_there(seat, extent, ChangeWhat::Append { offset: at, data }).await?,
                Err(DataError::Damaged { .. }) => self.append_blocks(seat, extent, at..end).await?,
                Err(error) => return Err(AlignError::Own(error)),
            }
            if is_gone {
                self.punch_there(seat, extent, at..end).await?;
            }
            at = end;
        }
        Ok(())
    }

    /// Appends block by block, where some are damaged here.
    async fn append_blocks(&self, seat: &Seat, extent: ExtentId, bytes: Range<u64>) -> Result<(), AlignError> {
        for part in blocks_of(bytes) {
            self.check()?;
            let (data, is_given_up) = match self.counting_block(seat, extent, &part).await? {
                Counting::Of(_, data) => (data, false),
                _ => (vec![0; (part.end - part.start) as usize].into(), true),
            };
            self.change_there(seat, extent, ChangeWhat::Append { offset: part.start, data }).await?;
            // Bytes behind the end of a block that a copy in sync has were never acknowledged.
            if is_given_up && part.start.is_multiple_of(BLOCK) {
                self.give_up_there(seat, extent, part.start).await?;
            }
        }
        Ok(())
    }

    async fn change_there(&self, seat: &Seat, extent: ExtentId, what: ChangeWhat) -> Result<(), AlignError> {
        self.check()?;
        self.ask(seat, What::Change(Change { extent, what }), ALIGN_PATIENCE).await?;
        Ok(())
    }

    async fn sums_there(
        &self,
        seat: &Seat,
        extent: ExtentId,
        first_block: u64,
        most: usize,
    ) -> Result<Option<ExtentSums>, AlignError> {
        match self.ask(seat, What::Sums { extent, first_block, most: most as u64 }, ALIGN_PATIENCE).await? {
            Answer::Sums(sums) => Ok(sums),
            _ => Err(CopyError::Silent("an answer to another question".to_owned()).into()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    /// The content is to be copied.
    Content,
    /// It is to be given back.
    Gone,
}

/// A range cut at the borders of blocks.
fn blocks_of(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let blocks = bytes.start / BLOCK..bytes.end.div_ceil(BLOCK);
    blocks.map(move |block| bytes.start.max(block * BLOCK)..bytes.end.min((block + 1) * BLOCK))
}

/// Runs of blocks that are not the same. Blocks that were given back there alone stay as they are. What is lost here may be anything there.
fn differences(own: &[BlockSum], there: &[BlockSum]) -> Vec<(Range<u64>, Difference)> {
    let mut runs: Vec<(Range<u64>, Difference)> = Vec::new();
    for (block, (own, there)) in (0u64..).zip(own.iter().zip(there)) {
        let difference = match (own, there) {
            (_, BlockSum::Absent) => continue,
            (BlockSum::Has(own), BlockSum::Has(there)) if own == there => continue,
            (BlockSum::Has(_) | BlockSum::Lost, _) => Difference::Content,
            (BlockSum::Absent, _) => Difference::Gone,
        };
        match runs.last_mut().filter(|(range, last)| range.end == block && *last == difference) {
            Some((range, _)) => range.end += 1,
            None => runs.push((block..block + 1, difference)),
        }
    }
    runs
}
