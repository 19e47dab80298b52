//! Admin HTTP API, metrics and health.
#![forbid(unsafe_code)]
