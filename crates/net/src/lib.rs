//! Framed messages over TCP with deadlines and backpressure; an in-process short cut.
#![forbid(unsafe_code)]

mod resend;

pub use resend::{Arrival, Incoming, NeverSent, Outgoing, StreamNumber, WindowFull};
