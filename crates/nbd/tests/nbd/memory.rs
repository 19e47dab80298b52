//! An export in memory, sparse in pages. It answers at once.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use nbd::{
    Answer, BoxFuture, Content, ContentPart, Export, ExportError, ExportErrorKind, ExportFacts, Exports, Extent, ListedExport,
    OpenError, Span, WriteZerosFlags,
};

pub const PAGE_BYTES: usize = 64 * 1024;

pub struct Memory {
    name: String,
    state: Mutex<State>,
}

struct State {
    facts: ExportFacts,
    pages: Vec<Option<Box<[u8]>>>,
}

impl Memory {
    pub fn new(name: &str, size_bytes: u64) -> Memory {
        let facts = ExportFacts {
            size_bytes,
            is_coherent_across_connections: true,
            can_trim: true,
            can_cache: true,
            can_zero_fast: true,
            description: format!("{size_bytes} bytes of memory"),
            ..ExportFacts::default()
        };
        Memory::with_facts(name, facts)
    }

    pub fn with_facts(name: &str, facts: ExportFacts) -> Memory {
        let pages = (0..facts.size_bytes.div_ceil(PAGE_BYTES as u64)).map(|_| None).collect();
        Memory { name: name.to_owned(), state: Mutex::new(State { facts, pages }) }
    }

    pub fn resize(&self, size_bytes: u64) {
        let mut state = self.state.lock().expect("no test panics with it");
        state.facts.size_bytes = size_bytes;
        state.pages.resize_with(size_bytes.div_ceil(PAGE_BYTES as u64) as usize, || None);
    }

    fn with<T>(&self, span: Span, run: impl FnOnce(&mut State) -> T) -> Result<T, ExportError> {
        let mut state = self.state.lock().expect("no test panics with it");
        if span.end() > state.facts.size_bytes {
            return Err(ExportError::new(ExportErrorKind::Invalid, "the export has become smaller"));
        }
        Ok(run(&mut state))
    }

    fn zero(&self, span: Span, keep_allocated: bool) -> Result<(), ExportError> {
        self.with(span, |state| {
            for (page, range) in pages(span) {
                let place = &mut state.pages[page];
                let is_whole = range.len() == PAGE_BYTES;
                match place {
                    Some(bytes) if !is_whole || keep_allocated => bytes[range].fill(0),
                    None if keep_allocated => *place = Some(new_page()),
                    _ => *place = None,
                }
            }
        })
    }
}

/// The pages of a span, and which bytes of each.
fn pages(span: Span) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (mut at, end) = (span.offset as usize, span.end() as usize);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (page, from) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let to = PAGE_BYTES.min(from + end - at);
            at += to - from;
            (page, from..to)
        })
    })
}

fn new_page() -> Box<[u8]> {
    vec![0; PAGE_BYTES].into_boxed_slice()
}

impl Export for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> ExportFacts {
        self.state.lock().expect("no test panics with it").facts.clone()
    }

    fn read(&self, span: Span) -> Answer<'_, Content> {
        Answer::Now(self.with(span, |state| {
            let mut content = Content::new();
            for (page, range) in pages(span) {
                content.push(match &state.pages[page] {
                    Some(bytes) => ContentPart::Data(Bytes::copy_from_slice(&bytes[range])),
                    None => ContentPart::Zeros(range.len() as u32),
                });
            }
            content
        }))
    }

    fn write(&self, offset: u64, data: Bytes, _force_unit_access: bool) -> Answer<'_, ()> {
        let span = Span { offset, length: data.len() as u32 };
        Answer::Now(self.with(span, |state| {
            let mut data = &data[..];
            for (page, range) in pages(span) {
                let (here, rest) = data.split_at(range.len());
                state.pages[page].get_or_insert_with(new_page)[range].copy_from_slice(here);
                data = rest;
            }
        }))
    }

    fn write_zeros(&self, span: Span, flags: WriteZerosFlags) -> Answer<'_, ()> {
        if flags.only_if_fast && flags.keep_allocated {
            return Answer::Now(Err(ExportError::new(ExportErrorKind::NotFast, "allocating takes as long as writing")));
        }
        Answer::Now(self.zero(span, flags.keep_allocated))
    }

    fn trim(&self, span: Span, _force_unit_access: bool) -> Answer<'_, ()> {
        Answer::Now(self.zero(span, false))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    fn block_status(&self, span: Span, most: usize) -> Answer<'_, Vec<Extent>> {
        Answer::Now(self.with(span, |state| {
            pages(span)
                .map(|(page, range)| {
                    let is_hole = state.pages[page].is_none();
                    Extent { length: range.len() as u64, is_hole, is_zero: is_hole }
                })
                // Neighbours of one state count as one: more are looked at than may be said.
                .take(most.saturating_mul(64))
                .collect()
        }))
    }
}

/// A fixed set of exports; the first is the default.
pub struct Fixed(pub Vec<Arc<dyn Export>>);

impl Exports for Fixed {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<dyn Export>, OpenError>> {
        let found = self.0.iter().find(|export| name.is_empty() || export.name() == name);
        Box::pin(std::future::ready(found.cloned().ok_or(OpenError::NoSuchExport)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedExport>, OpenError>> {
        let list = self
            .0
            .iter()
            .map(|export| ListedExport { name: export.name().to_owned(), description: export.facts().description });
        Box::pin(std::future::ready(Ok(list.collect())))
    }
}
