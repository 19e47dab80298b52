//! A tail for simulations.

use std::io;
use std::sync::Arc;

use env::Env;
use parking_lot::Mutex;

use super::Tail;

/// The kernel writes back whole pages, each when it likes.
const PAGE_BYTES: usize = 4096;

/// A tail in memory. Clones share it.
#[derive(Clone)]
pub struct SimTail(Arc<Mutex<State>>);

#[derive(Clone)]
struct State {
    flushed: Vec<u8>,
    /// Since the last flush.
    written: Vec<(usize, Vec<u8>)>,
    fails: bool,
}

impl SimTail {
    pub fn new(size_bytes: usize) -> SimTail {
        SimTail(Arc::new(Mutex::new(State { flushed: vec![0; size_bytes], written: Vec::new(), fails: false })))
    }

    /// What the next process finds when this one was killed. What this one still writes does not get there.
    pub fn restart(&self) -> SimTail {
        SimTail(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// What is left when the power goes: of each page what it held at some moment since the last flush.
    pub fn crash(&self, env: &Env) -> SimTail {
        let state = self.0.lock();
        let mut left = state.flushed.clone();
        for (page, bytes) in left.chunks_mut(PAGE_BYTES).enumerate() {
            let moment = env.random_below(state.written.len() as u64 + 1) as usize;
            let begin = page * PAGE_BYTES;
            for (offset, written) in &state.written[..moment] {
                let from = begin.max(*offset);
                let to = (begin + bytes.len()).min(offset + written.len());
                if from < to {
                    bytes[from - begin..to - begin].copy_from_slice(&written[from - offset..to - offset]);
                }
            }
        }
        SimTail(Arc::new(Mutex::new(State { flushed: left, written: Vec::new(), fails: false })))
    }

    /// Whether writes fail from now on.
    pub fn set_fails(&self, fails: bool) {
        self.0.lock().fails = fails;
    }
}

impl Tail for SimTail {
    fn size_bytes(&self) -> usize {
        self.0.lock().flushed.len()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let state = self.0.lock();
        let mut bytes = state.flushed.clone();
        for (offset, written) in &state.written {
            bytes[*offset..offset + written.len()].copy_from_slice(written);
        }
        Ok(bytes)
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.fails {
            return Err(io::Error::other("a tail that fails"));
        }
        state.written.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let bytes = self.read()?;
        let mut state = self.0.lock();
        (state.flushed, state.written) = (bytes, Vec::new());
        Ok(())
    }
}
