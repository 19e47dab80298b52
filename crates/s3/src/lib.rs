//! The S3 interface over HTTP.
#![forbid(unsafe_code)]

mod app;
mod config;
mod failure;
mod guard;
mod request_id;
mod response;
mod server;
mod sigv4;
mod target;
mod xml;

pub use app::App;
pub use config::{S3Config, Timeouts};
pub use server::{ListenError, S3Server, listen, serve_core};
