//! What a program says to the person or program that runs it: one writer for standard output, one for standard error.
//!
//! `println!` panics when its reader has gone (`trilith object ls … | head`) or its file is on a full disk. Here both are errors, and the
//! caller ends with them: the program then ends quietly when nobody reads on, and says why when its output can't be kept.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};

/// Why nothing more can be printed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The reader has seen enough.
    #[error("the reader of the output has closed it")]
    Closed,
    #[error("writing the output: {0}")]
    Failed(io::Error),
}

/// What printing ends with.
pub type Printed = Result<(), OutputError>;

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> OutputError {
        match error.kind() {
            ErrorKind::BrokenPipe => OutputError::Closed,
            _ => OutputError::Failed(error),
        }
    }
}

/// A line on standard output.
pub fn line(text: Arguments<'_>) -> Printed {
    print(format_args!("{text}\n"))
}

/// Text on standard output, as it is.
pub fn print(text: Arguments<'_>) -> Printed {
    let mut out = stdout().lock();
    out.write_fmt(text)?;
    Ok(out.flush()?)
}

/// Bytes on standard output, as they are.
pub fn bytes(bytes: &[u8]) -> Printed {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// A line on standard error. If that takes nothing, there is no place left to say so.
pub fn complain(text: Arguments<'_>) {
    prompt(format_args!("{text}\n"));
}

/// Text on standard error, which is there also when standard output goes elsewhere.
pub fn prompt(text: Arguments<'_>) {
    let mut out = stderr().lock();
    drop(out.write_fmt(text).and_then(|()| out.flush()));
}

/// As `println!`; ends with an [`OutputError`].
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::output::line(format_args!($($words)*)) };
}

/// As `eprintln!`, also where standard error is closed.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => { $crate::output::complain(format_args!($($words)*)) };
}
