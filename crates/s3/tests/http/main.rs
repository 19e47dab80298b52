//! The S3 interface over real sockets, spoken to in raw HTTP.

mod bad_input;
mod client;
mod connections;
mod copies;
mod documents;
mod foreign;
mod full;
mod not_http;
mod objects;
mod owners;
mod presigned;
mod quiet;
mod server;
mod signing;
mod slow_uploads;
mod subresources;
mod sweep;
mod tagging;
