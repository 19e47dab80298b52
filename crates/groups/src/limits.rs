//! Named limits of placed groups.

use std::time::Duration;

/// Members of a group.
pub const MEMBERS: usize = 3;
/// Pause after a group that did not start, before it is started again.
pub const START_REST: Duration = Duration::from_secs(5);
/// How often a leader looks whether its group has the members of the record.
pub const KEEP_LOOK: Duration = Duration::from_secs(1);
/// How often the assigner looks which groups there are to be.
pub const ASSIGNER_TICK: Duration = Duration::from_secs(1);
/// How long the manager's leader hears of nodes before it takes one that it has not heard for one that is away.
pub const HEARD_AGE: Duration = Duration::from_secs(5);
/// How long a node that was removed from its cluster has its groups make do without it, before it ends where the others are a majority; longer
/// than a new member may take to catch up.
pub const LEAVE_PATIENCE: Duration = Duration::from_secs(90);
/// How often it asks which nodes the members are to be.
pub const LEAVE_LOOK: Duration = Duration::from_secs(1);
/// How long another node may take to say so.
pub const MAP_PATIENCE: Duration = Duration::from_secs(3);
/// How long others may take to lead the groups of a node that stops. After that they elect one of them, which takes some two seconds.
pub const HAND_OVER_PATIENCE: Duration = Duration::from_secs(1);
/// How often a node that stops looks whether another one leads.
pub const HAND_OVER_LOOK: Duration = Duration::from_millis(50);

const _: () = assert!(LEAVE_PATIENCE.as_millis() > consensus::limits::CATCH_UP_LIMIT.as_millis());
