//! The bytes of a file: pages in a map, holes where none are.

use std::collections::BTreeMap;

pub const PAGE: u64 = 4096;
const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

#[derive(Debug, Default)]
pub struct Pages {
    pages: BTreeMap<u64, Box<[u8; PAGE as usize]>>,
    pub size: u64,
}

impl Pages {
    pub fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Pages that a write or an allocation of this range would add.
    pub fn missing(&self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        let (first, last) = (start / PAGE, (end - 1) / PAGE);
        last - first + 1 - self.pages.range(first..=last).count() as u64
    }

    pub fn write(&mut self, offset: u64, mut data: &[u8]) {
        let mut at = offset;
        while !data.is_empty() {
            let within = (at % PAGE) as usize;
            let now = data.len().min(PAGE as usize - within);
            let page = self.pages.entry(at / PAGE).or_insert_with(|| Box::new(ZEROS));
            page[within..within + now].copy_from_slice(&data[..now]);
            (at, data) = (at + now as u64, &data[now..]);
        }
        self.size = self.size.max(at);
    }

    pub fn read(&self, offset: u64, size: u64) -> Vec<u8> {
        let end = offset.saturating_add(size).min(self.size);
        let mut data = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let within = at % PAGE;
            let now = (PAGE - within).min(end - at);
            let page = self.pages.get(&(at / PAGE)).map_or(&ZEROS, |page| page);
            data.extend_from_slice(&page[within as usize..(within + now) as usize]);
            at += now;
        }
        data
    }

    pub fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.punch(size, self.size);
        }
        self.size = size;
    }

    /// Makes a hole; what is not whole pages becomes zeros.
    pub fn punch(&mut self, start: u64, end: u64) {
        let whole = (start.div_ceil(PAGE), if end >= self.size { u64::MAX } else { end / PAGE });
        if whole.0 < whole.1 {
            let mut tail = self.pages.split_off(&whole.0);
            let mut kept = tail.split_off(&whole.1);
            self.pages.append(&mut kept);
        }
        self.zero_existing(start, end);
    }

    fn zero_existing(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        for (index, page) in self.pages.range_mut(start / PAGE..=(end - 1) / PAGE) {
            let base = index * PAGE;
            page[(start.max(base) - base) as usize..(end.min(base + PAGE) - base) as usize].fill(0);
        }
    }

    /// Allocates what is missing, as zeros.
    pub fn allocate(&mut self, start: u64, end: u64) {
        for index in start / PAGE..end.div_ceil(PAGE) {
            self.pages.entry(index).or_insert_with(|| Box::new(ZEROS));
        }
    }

    pub fn zero(&mut self, start: u64, end: u64) {
        self.zero_existing(start, end);
        self.allocate(start, end);
    }

    /// The next data, or the next hole, at or after `offset`, which is in the file. None where no data follow.
    pub fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        let mut index = offset / PAGE;
        if data {
            let (found, _) = self.pages.range(index..).next()?;
            let at = offset.max(found * PAGE);
            return (at < self.size).then_some(at);
        }
        while self.pages.contains_key(&index) {
            index += 1;
        }
        Some(offset.max(index * PAGE).min(self.size))
    }
}
