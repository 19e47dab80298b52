//! What a server says to the person or program that started it. Commands say it with [`bench::tell`] and end when nothing more can be said;
//! a server goes on.

use bench::output;
use std::fmt::Arguments;

/// One line on the standard output, if it takes one.
pub fn line(text: Arguments<'_>) {
    if let Err(error) = output::line(text) {
        tracing::warn!(%error, "the standard output takes nothing");
    }
}

/// As `tell!`, for servers.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}

pub(crate) use say;
