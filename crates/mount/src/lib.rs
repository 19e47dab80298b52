//! A file volume behind a mount: FUSE requests to calls of the file system's client, and its errors to errno. Translation and nothing else.
#![forbid(unsafe_code)]
