//! Framed messages over TCP with deadlines and backpressure; an in-process short cut.
#![forbid(unsafe_code)]
