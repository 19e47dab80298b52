//! NBD for images: threads that serve the listeners, and the exports that they offer.

mod door;
mod export;

pub use door::NbdDoor;
