//! Serves one device: fences, deadlines, drain.
#![forbid(unsafe_code)]
