//! The S3 interface over HTTP: translates requests into operations of the object service, and nothing else.
//!
//! ```text
//!   socket ─▶ server ─▶ App ─▶ guard ─▶ auth ─┬─▶ direct ─────────────┬─▶ object::ObjectService
//!                                             └─▶ library (s3s) ──────┘
//! ```
//!
//! Invariants
//! - Nothing looks at a request before the guard has let it pass; nothing of it is believed, and nothing of its body read, before its
//!   signature is verified. There is one verification: the library never sees a signature.
//! - After an answer a connection is at the first byte of the next request, or it ends.
//! - Content becomes visible only after all of it was verified.
//! - No type of the S3 library leaves `library` and the bodies it makes.
#![forbid(unsafe_code)]

mod config;
mod server;

mod app;
mod auth;
mod guard;
mod hearsay;
mod payload;
mod presigned;
mod query;
mod refusals;
mod repeated;
mod sigv4;
mod target;

mod direct;
mod library;

mod answer_headers;
mod checksum_headers;
mod dates;
mod details;
mod expected_owner;
mod failure;
mod owner;
mod request_headers;
mod request_id;
mod response;
mod stats;
mod tags;
mod translate;
mod xml;

pub use app::App;
pub use config::{MAX_CONNECTION_BUFFERS_BYTES_PER_CORE, MinimumPace, S3Config, Timeouts};
pub use server::{ListenError, S3Server, listen, serve_core};
pub use stats::{OPERATIONS, OperationStats, S3Stats};
