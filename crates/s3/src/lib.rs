//! The S3 interface over HTTP.
#![forbid(unsafe_code)]

mod config;
mod server;

mod app;
mod auth;
mod guard;
mod payload;
mod query;
mod sigv4;
mod target;

mod direct;
mod library;

mod answer_headers;
mod dates;
mod failure;
mod owner;
mod request_headers;
mod request_id;
mod response;
mod translate;
mod xml;

pub use app::App;
pub use config::{S3Config, Timeouts};
pub use server::{ListenError, S3Server, listen, serve_core};
