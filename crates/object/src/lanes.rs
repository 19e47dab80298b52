//! MD5 of the contents that arrive on one thread, several in one pass.
//!
//! MD5 is one long chain: each of its 64 steps waits for the one before, and a core that hashes one content idles most of the time
//! (0.5 to 0.9 GB/s). Eight contents in the eight lanes of a vector take hardly longer than one, so contents that arrive at
//! the same time on one thread are hashed together.
//!
//! ```text
//! content A ── pieces ─►┐
//! content B ── pieces ─►├─ Queue (one a thread) ─ pass: up to 8 runs of whole blocks, equally long ─► kernel
//! content C ── pieces ─►┘
//! ```
//!
//! Nobody is in charge: whoever waits yields, a few times at most, so that other connections bring what has arrived for them, and then runs a
//! pass for all, unless another has run it meanwhile. A request that is dropped takes its content out and stops nobody. What is shorter
//! than a yield is worth is hashed at once.

mod content;
mod kernel;
mod queue;

pub(crate) use queue::Md5Content;

#[cfg(test)]
mod tests;
