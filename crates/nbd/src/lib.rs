//! The NBD server: translates the protocol's commands into operations of block exports, and nothing else.
//!
//! ```text
//!               bytes                     events                 operations
//!   socket ───────────────▶ Negotiation ───────────▶ connection ────────────▶ Exports   (find, list)
//!      │                         │ agreed
//!      │                         ▼
//!      └──────────────▶ RequestDecoder ────────────▶ session ───────────────▶ Export    (read, write, ...)
//!      ◀──────────────────────────────── replies ───────┘
//! ```
//!
//! [`Negotiation`] and [`RequestDecoder`] are state machines without I/O. They take bytes in pieces of any length and give the
//! same outputs however the bytes are cut. The connection and the session are the shell around them.
//!
//! One task serves a connection: it reads, decodes, starts operations, polls those that wait, and writes all replies that are
//! ready with one vectored write. No task, no channel and no lock is used for a request. The program runs one current-thread
//! runtime per core; a connection stays on the core that accepted it. Futures must be `Send` all the same: it costs nothing
//! at run time here, and tests, simulations and other runtimes can then run the same code.
//!
//! Invariants
//! - No byte of a client is trusted. A request that breaks a rule is refused with an error number and the connection goes on;
//!   only where the next request can't be found any more does the connection end ([`Violation`]).
//! - Memory is reserved before it is used. What a connection holds is bounded by [`Limits`]; beyond that the server stops reading the
//!   socket.
//! - A write is acknowledged only after the export has said that all of it is done.
//! - An operation that was started is polled to its end, also when its client is gone. It is dropped only when a stop
//!   takes longer than [`Timeouts::drain`].
//! - Protocol numbers (error numbers, flags, reply types) exist in this crate alone.
#![forbid(unsafe_code)]

mod limits;

mod export;

mod errno;
mod protocol;

mod negotiation;
mod reply;
mod request;

mod server;

pub use errno::Errno;
pub use export::{
    Answer, BoxFuture, Content, ContentPart, Export, ExportError, ExportErrorKind, ExportFacts, Exports, Extent, ListedExport,
    OpenError, Span, WriteZerosFlags,
};
pub use limits::{
    ALLOWANCE_BYTES, ALLOWANCE_REQUESTS, Limits, MAX_BYTES_PER_CONNECTION, MAX_CONNECTIONS, MAX_EXTENTS, MAX_LIST_REPLY_BYTES,
    MAX_OPTION_BYTES, MAX_OPTIONS, MAX_PAYLOAD_BYTES, MAX_REQUESTS_PER_CONNECTION, MAX_SHARED_BYTES, MAX_SHARED_REQUESTS,
    MAX_SKIPPED_BYTES, MAX_SKIPPED_OPTION_BYTES, MAX_STRING_BYTES, MINIMUM_BLOCK_BYTES, NbdConfig, PIECE_BYTES,
    PREFERRED_BLOCK_BYTES, Timeouts,
};
pub use negotiation::{Agreed, GREETING_BYTES, Negotiation, NegotiationOutput, greeting};
pub use request::{Command, Cookie, REQUEST_BYTES, RequestDecoder, RequestEvent, RequestRules};
pub use server::{ListenError, Listener, NbdServer, Stop};

/// What a client sent so that the server can't find the next message. The connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("client flags {found:#010x}: the server offers {offered:#010x} only")]
    ClientFlags { found: u32, offered: u32 },
    #[error("byte {offset} of the connection: expected the magic number of an option, found {found:#018x}")]
    OptionMagic { offset: u64, found: u64 },
    #[error("option {option} has {found} bytes of data; at most {MAX_SKIPPED_OPTION_BYTES} are skipped")]
    OptionLength { option: u32, found: u32 },
    #[error("more than {MAX_OPTIONS} options")]
    TooManyOptions,
    #[error("an export name that is no UTF-8 text of at most {MAX_STRING_BYTES} bytes, where the protocol has no error reply")]
    ExportName,
    #[error("byte {offset} of the connection: expected the magic number of a request, found {found:#010x}")]
    RequestMagic { offset: u64, found: u32 },
    #[error("a write of {found} bytes; at most {MAX_SKIPPED_BYTES} are skipped")]
    WriteLength { found: u32 },
}
