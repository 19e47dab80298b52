//! Names and numbers.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// Numbers that are counted (terms, indices, snapshots) stay below this when they are read, from the log or from a peer. No group gets
/// there: a billion a second take 146 years. So whatever passes can be counted on from without an overflow.
pub(crate) const COUNT_LIMIT: u64 = 1 << 62;

/// Reads a number that is counted.
pub(crate) fn below_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if number >= COUNT_LIMIT {
        return Err(de::Error::custom("a count beyond its limit"));
    }
    Ok(number)
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident $(, read by $read:literal)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name($(#[serde(deserialize_with = $read)])? pub u64);

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
    Term, read by "below_limit"
);
number!(
    /// Place of an entry in its group's log, from 0.
    LogIndex, read by "below_limit"
);

impl NodeId {
    /// The number of a process that has an identity of sixteen random bytes: a part of that.
    pub fn of_identity(identity: &[u8; 16]) -> NodeId {
        NodeId(u64::from_le_bytes(*identity.first_chunk().expect("an identity has sixteen bytes")))
    }
}

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
