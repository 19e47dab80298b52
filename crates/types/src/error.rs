//! What a caller can do about an error; each operation's own error type maps onto one of these.

use std::fmt;

/// The short public classification of an error, by what the caller must do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The thing named does not exist. Do not retry.
    NotFound,
    /// The thing exists already, or the present state excludes the operation. Do not retry unchanged.
    Conflict,
    /// A condition of the request was evaluated and is false. Do not retry unchanged.
    PreconditionFailed,
    /// The request is malformed or beyond a named limit. Do not retry.
    Invalid,
    /// The caller may not do this.
    Denied,
    /// No space is left for this class of write; deleting frees some.
    Full,
    /// Something needed is not reachable now. Retry later.
    Unavailable,
    /// Stored bytes are not what was written, and no other copy could answer.
    Corrupt,
    /// A queue or rate limit is reached. Retry after a pause.
    Busy,
    /// The deadline passed; the outcome is unknown to the caller.
    Timeout,
    /// A bug in Trilith.
    Internal,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ErrorKind::NotFound => "not found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::PreconditionFailed => "precondition failed",
            ErrorKind::Invalid => "invalid request",
            ErrorKind::Denied => "denied",
            ErrorKind::Full => "no space left",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Corrupt => "corrupt data",
            ErrorKind::Busy => "busy",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Internal => "internal error",
        };
        f.write_str(text)
    }
}
