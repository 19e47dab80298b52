//! The S3 interface over HTTP.
