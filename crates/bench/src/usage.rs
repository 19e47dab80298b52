//! How much processor the generator itself took: a client that needs a whole core measures itself.

use std::io;
use std::time::Duration;

/// Processor time of the calling thread so far, from the scheduler's own count.
pub fn thread_cpu() -> io::Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split_ascii_whitespace().next().and_then(|field| field.parse().ok());
    nanoseconds
        .map(Duration::from_nanos)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/thread-self/schedstat does not begin with a number"))
}
