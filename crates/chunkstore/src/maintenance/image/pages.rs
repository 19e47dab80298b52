//! The part of an image about pages.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_command::PageRange;
use format::chunk_id::ChunkNumber;
use format::chunk_place::BlockPlace;
use format::decode::Reader;

use super::super::chunk::Work;
use super::super::pages::{Draft, Page};
use super::super::space::taken_by;
use super::uses::{ArchivedUse, put_uses, read_former_uses, read_uses};
use super::{FORMER_VERSION, ImageError, MaintenanceUnit, count, put_u64};

const PAGE_BYTES: usize = 40;
const NUMBER_BYTES: usize = 8;
/// The shortest.
const DRAFT_BYTES: usize = 32;

impl MaintenanceUnit {
    pub(super) fn put_pages(&self, out: &mut Vec<u8>) {
        put_u64(out, self.pages.current.len() as u64);
        for (first, page) in &self.pages.current {
            [first.0, page.last.0, page.number.0, page.live, page.short].iter().for_each(|number| put_u64(out, *number));
        }
        put_numbers(out, &self.pages.gone);
        put_u64(out, u64::from(self.pages.draft.is_some()));
        if let Some(Draft { number, range, changed }) = &self.pages.draft {
            [number, &range.first, &range.last].iter().for_each(|number| put_u64(out, number.0));
            put_numbers(out, changed);
        }
        put_uses(out, &self.archived_use());
    }

    /// All use but what follows from what is here.
    fn archived_use(&self) -> Vec<ArchivedUse> {
        if self.pages.current.is_empty() {
            return Vec::new();
        }
        let mut here: BTreeMap<BlockPlace, (u32, u16)> = BTreeMap::new();
        for (place, bytes) in self.held() {
            let (sum, entries) = here.entry(place).or_default();
            *sum += taken_by(bytes);
            *entries += 1;
        }
        let others = self.space.uses().map(|(place, bytes, entries)| {
            let here = here.get(&place).copied().unwrap_or_default();
            (place, bytes - here.0, entries - here.1)
        });
        others.filter(|(_, bytes, entries)| (*bytes, *entries) != (0, 0)).collect()
    }

    pub(super) fn read_pages(&mut self, reader: &mut Reader<'_>, version: u8) -> Result<Vec<ArchivedUse>, ImageError> {
        for _ in 0..count(reader, PAGE_BYTES, "pages")? {
            let (first, last) = (read_number(reader)?, read_number(reader)?);
            let page = Page { last, number: read_number(reader)?, live: reader.u64("live")?, short: reader.u64("short")? };
            self.pages.current.insert(first, page);
        }
        self.pages.gone = read_numbers(reader, "gone")?;
        for _ in 0..count(reader, DRAFT_BYTES, "draft")? {
            let (number, first, last) = (read_number(reader)?, read_number(reader)?, read_number(reader)?);
            let draft = Draft { number, range: PageRange { first, last }, changed: read_numbers(reader, "changed")? };
            if self.pages.draft.replace(draft).is_some() {
                return Err(ImageError::Impossible("two drafts of pages"));
            }
        }
        if version == FORMER_VERSION {
            return read_former_uses(reader);
        }
        let most = self.space.grants().iter().map(|(.., blocks)| u64::from(*blocks)).sum();
        read_uses(reader, most)
    }

    /// Pages whose chunks there are, and ranges that hold together.
    pub(super) fn check_pages(&self) -> Result<(), ImageError> {
        let mut free_from = ChunkNumber(0);
        for (first, page) in &self.pages.current {
            if *first < free_from || page.last < *first || page.last.0 >= self.capacity {
                return Err(ImageError::Impossible("pages whose ranges overlap, or are none"));
            }
            free_from = ChunkNumber(page.last.0 + 1);
            if page.short > page.live {
                return Err(ImageError::Impossible("a page with more rows that lack copies than rows"));
            }
            if !self.has_pages_number(page.number) || !self.rows.contains_key(&page.number) || page.live == 0 {
                return Err(ImageError::Impossible("a page that is no chunk, or has none"));
            }
        }
        if let Some(Draft { number, range, .. }) = &self.pages.draft {
            let is_pending = matches!(self.work.get(number), Some(Work::Pending { .. }));
            let is_range = range.first <= range.last && range.last.0 < self.capacity && self.pages.takes(*range);
            if !is_pending || !is_range || !self.has_pages_number(*number) {
                return Err(ImageError::Impossible("a draft of a page that is not pending, or of no range"));
            }
        }
        let is_lost = |number: &ChunkNumber| self.rows.contains_key(number) || !self.pages.is_covered(*number);
        match self.pages.gone.iter().any(is_lost) {
            true => Err(ImageError::Impossible("a chunk that is gone and is not, or that no page has")),
            false => Ok(()),
        }
    }
}

fn put_numbers(out: &mut Vec<u8>, numbers: &BTreeSet<ChunkNumber>) {
    put_u64(out, numbers.len() as u64);
    numbers.iter().for_each(|number| put_u64(out, number.0));
}

fn read_number(reader: &mut Reader<'_>) -> Result<ChunkNumber, ImageError> {
    Ok(ChunkNumber(reader.u64("number")?))
}

fn read_numbers(reader: &mut Reader<'_>, field: &'static str) -> Result<BTreeSet<ChunkNumber>, ImageError> {
    (0..count(reader, NUMBER_BYTES, field)?).map(|_| read_number(reader)).collect()
}
