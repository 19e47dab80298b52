//! The S3 interface over HTTP: translates requests into operations of the object service, and nothing else.
//!
//! ```text
//!   socket ─▶ server ─▶ App ─▶ guard ─┬─▶ direct ─────────────┬─▶ object::ObjectService
//!                                     └─▶ library (s3s) ──────┘
//! ```
//!
//! Invariants
//! - Nothing looks at a request before the guard has let it pass; nothing of it is believed before its signature is verified.
//! - An operation has one implementation, however its request was verified: both ways end in `direct` or in the library's
//!   operations, and answers are compared byte for byte in tests.
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
mod sigv4;
mod target;

mod direct;
mod library;

mod answer_headers;
mod dates;
mod expected_owner;
mod failure;
mod owner;
mod request_headers;
mod request_id;
mod response;
mod stats;
mod translate;
mod xml;

pub use app::App;
pub use config::{MinimumPace, S3Config, Timeouts};
pub use server::{ListenError, S3Server, listen, serve_core};
pub use stats::{OPERATIONS, OperationStats, S3Stats};
