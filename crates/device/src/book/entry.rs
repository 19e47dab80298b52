//! What is known of one zone.

use format::zone_header::{ZONE_DATA_START, ZoneStream};
use types::Activation;

use crate::limits::LOST_ACTIVATIONS;

/// What a zone is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneUse {
    /// Never allocated by us.
    Never,
    Prewriting,
    Free,
    Activating,
    Open,
    Finishing,
    Finished,
    Resetting,
    /// Being made ready for a volume.
    Lending,
    /// A volume's.
    Lent,
    /// A volume has given it back.
    Returning,
    /// The start could not read enough of it to tell its last activation. Nothing in it is believed, and nothing is written to it, before it is
    /// reset.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ZoneEntry {
    pub(crate) doing: ZoneUse,
    /// The last one; 0 if never.
    pub(crate) activation: Activation,
    pub(crate) stream: Option<ZoneStream>,
    /// Where the reserved bytes end, from the zone's start. Kept up to date only from `Finishing` on.
    pub(crate) end: u64,
}

impl ZoneEntry {
    pub(crate) const NEVER: ZoneEntry =
        ZoneEntry { doing: ZoneUse::Never, activation: Activation(0), stream: None, end: ZONE_DATA_START };
}

/// Gives those whose activation is not known numbers of their own, above every one that may have been handed out. So none is handed out again, and
/// every walk comes by them. The highest that is known, and the highest of all.
pub(crate) fn number_unknown(zones: &mut [ZoneEntry]) -> (Activation, Activation) {
    let is_unknown = |entry: &&mut ZoneEntry| entry.doing == ZoneUse::Unknown;
    let known = zones.iter().filter(|entry| entry.doing != ZoneUse::Unknown).map(|entry| entry.activation).max();
    let mut last = zones.iter().map(|entry| entry.activation).max().unwrap_or_default().0;
    for (count, entry) in zones.iter_mut().filter(is_unknown).enumerate() {
        last += if count == 0 { LOST_ACTIVATIONS } else { 1 };
        entry.activation = Activation(last);
    }
    (known.unwrap_or_default(), Activation(last))
}
