//! An export that does what a test says: it waits, fails, and notes what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use nbd::{
    Answer, BoxFuture, Content, Export, ExportError, ExportErrorKind, ExportFacts, Extent, OpenError, Span, WriteZerosFlags,
};
use tokio::sync::Semaphore;

use crate::memory::Memory;

pub struct Scripted {
    memory: Memory,
    notes: Mutex<Vec<String>>,
    faults: Mutex<HashMap<u64, ExportErrorKind>>,
    /// Each operation takes one permit when it ends; none: it answers at once.
    gate: Option<Semaphore>,
    pub refusal: Mutex<Option<OpenError>>,
}

impl Scripted {
    /// Operations answer at once.
    pub fn at_once(memory: Memory) -> Arc<Scripted> {
        Scripted::with_gate(memory, None)
    }

    /// Operations wait for [`Scripted::let_pass`].
    pub fn gated(memory: Memory) -> Arc<Scripted> {
        Scripted::with_gate(memory, Some(Semaphore::new(0)))
    }

    fn with_gate(memory: Memory, gate: Option<Semaphore>) -> Arc<Scripted> {
        let (notes, faults, refusal) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Scripted { memory, notes, faults, gate, refusal })
    }

    /// So many operations may end, in the order in which they began.
    pub fn let_pass(&self, count: usize) {
        self.gate.as_ref().expect("a gated export").add_permits(count);
    }

    pub fn fail_at(&self, offset: u64, kind: ExportErrorKind) {
        self.faults.lock().expect("no panic").insert(offset, kind);
    }

    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().expect("no panic"))
    }

    pub fn note_count(&self) -> usize {
        self.notes.lock().expect("no panic").len()
    }

    fn note(&self, note: String) {
        self.notes.lock().expect("no panic").push(note);
    }

    fn run<'a, T: Send + 'a>(
        &'a self,
        offset: u64,
        run: impl FnOnce(&'a Memory) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        let fault = self.faults.lock().expect("no panic").get(&offset).copied();
        let run = move || match (fault, run) {
            (Some(kind), _) => Err(ExportError::new(kind, "as the test wants it")),
            (None, run) => match run(&self.memory) {
                Answer::Now(result) => result,
                Answer::Later(_) => unreachable!("memory answers at once"),
            },
        };
        match &self.gate {
            None => Answer::Now(run()),
            Some(gate) => Answer::later(async move {
                gate.acquire().await.expect("the gate stays").forget();
                run()
            }),
        }
    }
}

impl Export for Scripted {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn facts(&self) -> ExportFacts {
        self.memory.facts()
    }

    fn first_client_enters(&self) -> BoxFuture<'_, Result<(), OpenError>> {
        Box::pin(async {
            // Slow enough that another client comes meanwhile.
            tokio::task::yield_now().await;
            self.note("first".to_owned());
            self.refusal.lock().expect("no panic").clone().map_or(Ok(()), Err)
        })
    }

    fn last_client_left(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.note("last".to_owned());
        })
    }

    fn read(&self, span: Span) -> Answer<'_, Content> {
        self.note(format!("read {} {}", span.offset, span.length));
        self.run(span.offset, move |memory| memory.read(span))
    }

    fn write(&self, offset: u64, data: Bytes, force_unit_access: bool) -> Answer<'_, ()> {
        self.note(format!("write {offset} {}{}", data.len(), if force_unit_access { " durable" } else { "" }));
        self.run(offset, move |memory| memory.write(offset, data, force_unit_access))
    }

    fn write_zeros(&self, span: Span, flags: WriteZerosFlags) -> Answer<'_, ()> {
        self.note(format!("zeros {} {} {flags:?}", span.offset, span.length));
        self.run(span.offset, move |memory| memory.write_zeros(span, flags))
    }

    fn trim(&self, span: Span, force_unit_access: bool) -> Answer<'_, ()> {
        self.note(format!("trim {} {}", span.offset, span.length));
        self.run(span.offset, move |memory| memory.trim(span, force_unit_access))
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.note("flush".to_owned());
        self.run(u64::MAX, Memory::flush)
    }

    fn cache(&self, span: Span) -> Answer<'_, ()> {
        self.note(format!("cache {} {}", span.offset, span.length));
        self.run(span.offset, move |memory| memory.cache(span))
    }

    fn block_status(&self, span: Span, most: usize) -> Answer<'_, Vec<Extent>> {
        self.note(format!("map {} {} {most}", span.offset, span.length));
        self.run(span.offset, move |memory| memory.block_status(span, most))
    }
}
