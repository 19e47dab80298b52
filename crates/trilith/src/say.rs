//! What a server says to whoever started it.
//!
//! Unlike `println!`, which panics where nobody listens or the file that listens is on a full disk: neither may end a server.

use std::fmt::Arguments;
use std::io::{Write, stdout};

/// One line on the standard output, if it takes one.
pub fn line(text: Arguments<'_>) {
    let mut out = stdout().lock();
    let written = out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if let Err(error) = written {
        tracing::warn!(%error, "the standard output takes nothing");
    }
}

/// As `println!`, for servers.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

pub(crate) use say;
