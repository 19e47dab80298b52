//! What is asked of a target on another node, and what it answers.
//!
//! A request is the number of a device, the number of what is asked ([`Ask`]), and its fields; an answer is one byte, 0 for a good
//! one or what went wrong ([`Fault`]), and its fields. All numbers are little endian; lists begin with a count of 32 bits. Frames
//! and payloads are sliced, not copied. Which version it is tells the connection's first message ([`net::PROTOCOL_VERSION`]).
//!
//! | number | ask | fields | answer |
//! |---|---|---|---|
//! | 1 | append | writer, session u64, list of (class u8, frame behind its length) | list of answers: zone u32, position, frame bytes u32, hints |
//! | 2 | open a session | writer | session u64 |
//! | 3 | read | zone u32, offset u32, expected bytes u32 | engine header, payload |
//! | 4 | read a piece | zone u32, offset u32, header bytes u32, payload bytes u32, from u32, to u32 | engine header, payload bytes u32, piece |
//! | 5 | walk | range, until u64, verify u8 | events, where it goes on |
//! | 6 | floor | | three positions |
//! | 7 | state | | usage, room, zones |
//! | 8 | reset | writer, zone u32, activation u64 | |
//! | 9, 10 | finish the reserved, the open zones | writer | |
//! | 11 | raise a fence | writer | |
//! | 12 | load fences | list of writers | |
//! | 13 | drain | | |
//!
//! A writer is kind u8, scope u64, token u64; a position activation u64, offset u32 in units.

mod answer;
mod append;
mod ask;
mod codec;
mod walk;

pub use crate::wire::answer::{AppendAnswer, Failure, Fault, TargetState, decode_answer, encode_answer};
pub use crate::wire::append::{AppendAnswers, AppendPart, AppendRequest};
pub use crate::wire::ask::{Ask, Request};
pub use crate::wire::codec::{Wire, WireError};
pub use crate::wire::walk::{PageEvent, WalkPage, WalkRest};
