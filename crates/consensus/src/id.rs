//! Names and numbers.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// A process that is a member of groups. Never reused: what it voted for stands in its log.
    NodeId
);
number!(
    /// A group: one replicated state machine.
    GroupId
);
number!(
    /// Number of a leadership; at most one node leads in a term.
    Term
);
number!(
    /// Place of an entry in its group's log, from 0.
    LogIndex
);

/// An entry's place and the term in which it was written: two logs that agree on a position agree on everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct LogPosition {
    pub term: Term,
    pub index: LogIndex,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.term, self.index)
    }
}
