//! Named limits of the state: it is held in memory, exported whole and copied into superblocks, so everything in it has one.

use std::time::Duration;

/// Most buckets of a cluster.
pub const MAX_BUCKETS: usize = 100_000;

/// Longest bucket policy (S3): 20 KiB.
pub const MAX_POLICY_BYTES: usize = 20 * 1024;

/// Most bytes of all policies together. A replicated manager's log has room for a copy of the state beside the one before; one that has grown beyond that
/// takes no command any more, also none that makes it smaller. Of what has limits by number alone nothing else comes near it.
pub const MAX_POLICIES_BYTES: usize = 64 * 1024 * 1024;

/// Most access keys.
pub const MAX_CREDENTIALS: usize = 100_000;

/// Access keys have 3 to this many characters.
pub const MAX_ACCESS_KEY_BYTES: usize = 128;

/// Secrets have 8 to this many characters.
pub const MAX_SECRET_BYTES: usize = 128;

/// Shortest access key and user name.
pub const MIN_ACCESS_KEY_BYTES: usize = 3;

/// Shortest secret.
pub const MIN_SECRET_BYTES: usize = 8;

/// Longest user name.
pub const MAX_USER_BYTES: usize = 128;

/// Most devices, those that were removed not counted.
pub const MAX_DEVICES: usize = 4096;

/// Longest path of a device.
pub const MAX_DEVICE_PATH_BYTES: usize = 4096;

/// Most nodes, those that were removed not counted.
pub const MAX_NODES: usize = 1024;

/// Most nodes, with those that were removed and left a fence: they may run, and must not write. Devices have room for so many
/// fences, and one that can't take them all takes part no more.
pub const MAX_FENCED_NODES: usize = format::superblock::fences::MAX_FENCES;

const _: () = assert!(MAX_NODES < MAX_FENCED_NODES);

/// Longest name, address, version, host, rack and zone of a node.
pub const MAX_NODE_TEXT_BYTES: usize = 255;

/// Most gateways that wait to be taken into a cell's view.
pub const MAX_LEARNERS: usize = 64;

/// Most tables of a cell's former views that no checkpoint has covered, each another layout. A view that would leave one more
/// behind is refused. The last one is for a founding with all devices: it decides everything, and so ends in the checkpoint that
/// covers them all.
pub const MAX_FORMER_TABLES: usize = 65;

/// As [`MAX_FORMER_TABLES`], for every other view.
pub const MAX_FORMER_TABLES_TO_CHANGE: usize = MAX_FORMER_TABLES - 1;

/// As [`MAX_FORMER_TABLES`], for a view that takes devices in and founds nothing: they can wait for a checkpoint, those that are
/// lost can't.
pub const MAX_FORMER_TABLES_TO_GROW: usize = 32;

/// Most cells.
pub const MAX_CELLS: usize = 1024;

/// Longest checkpoint manifest. A command with one fits a segment of the manager's log.
pub const MAX_MANIFEST_BYTES: usize = 4 * 1024 * 1024;

/// Longest replica-set table.
pub const MAX_REPLICA_TABLE_BYTES: usize = 1024 * 1024;

/// Most configuration entries.
pub const MAX_CONFIG_ENTRIES: usize = 1024;

/// Longest key of a configuration entry.
pub const MAX_CONFIG_KEY_BYTES: usize = 128;

/// Longest value of a configuration entry.
pub const MAX_CONFIG_VALUE_BYTES: usize = 4096;

/// Numbers of commands, of buckets' incarnations, of cells' starts and views stay below this. No manager gets there: a billion a second
/// take 146 years. So a state that holds a larger one is wrong, and one that passes can be counted on from without an overflow.
pub const NUMBER_LIMIT: u64 = 1 << 62;

/// As [`NUMBER_LIMIT`], for devices.
pub const DEVICE_NUMBER_LIMIT: u32 = 1 << 31;

/// As [`NUMBER_LIMIT`], for nodes.
pub const NODE_NUMBER_LIMIT: u32 = 1 << 31;

/// As [`NUMBER_LIMIT`], for generations of cells' tables.
pub const GENERATION_LIMIT: u32 = 1 << 31;

/// Bytes of a segment of the manager's log.
pub const LOG_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// Commands that may be applied before the state is made durable and the log is shortened.
pub const PERSIST_INTERVAL_COMMANDS: u64 = 256;

/// Segments in use after which the same happens: a few large manifests fill one.
pub const PERSIST_INTERVAL_SEGMENTS: usize = 2;

const _: () = assert!(MAX_MANIFEST_BYTES + 4096 + 1024 < LOG_SEGMENT_BYTES as usize);

/// Longest command of a replicated manager.
pub const MAX_PROPOSED_COMMAND_BYTES: usize = MAX_MANIFEST_BYTES + 64 * 1024;

/// Bytes of a command that go through consensus at once; a longer one goes in pieces.
pub const PROPOSAL_PIECE_BYTES: usize = 256 * 1024;

/// Commands in pieces that a replicated manager puts together at the same time; of more the one that was begun first is forgotten, and
/// begun again by its proposer.
pub const MAX_ASSEMBLIES: usize = 16;

/// Proposals of one process that wait for their replies; more wait for one of them to end.
pub const MAX_WAITING_PROPOSALS: usize = 256;

/// How far the newest proposal of a process may be ahead of the oldest that waits.
pub const PROPOSAL_WINDOW: u64 = 4096;

/// Proposers whose proposals are remembered, so that none takes effect twice; of more the one that was heard of longest ago is
/// forgotten. Each start of a member is a proposer.
pub const MAX_PROPOSERS: usize = 64;

/// How long a proposal is tried; after that its outcome is unknown to the caller, unless it was never under way.
pub const PROPOSE_DEADLINE: Duration = Duration::from_secs(10);

/// How long [`crate::Manager::fresh`] is tried.
pub const FRESH_DEADLINE: Duration = Duration::from_secs(10);

/// How long a change of members is tried. A new member must catch up meanwhile.
pub const MEMBERSHIP_DEADLINE: Duration = Duration::from_secs(60);

/// How long another member may take over one request before it is asked again, it or another.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);

/// How long a voter may take to say that it is there, before another one is taken out.
pub const VOICE_PATIENCE: Duration = Duration::from_secs(2);

/// The wait between two attempts.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// How often somebody who waits for the leader's answer looks whether another leads.
pub const LEADER_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Requests of one process to other members' managers that are under way. They share connections with consensus, whose heartbeats must
/// not wait behind them.
pub const MAX_REQUESTS_TO_MEMBERS: usize = 64;

/// Longest address of a member.
pub const MAX_MEMBER_ADDRESS_BYTES: usize = consensus::limits::MAX_ADDRESS_BYTES;

const _: () = assert!(PROPOSAL_PIECE_BYTES + 64 <= consensus::limits::MAX_COMMAND_BYTES);
const _: () = assert!((MAX_WAITING_PROPOSALS as u64) < PROPOSAL_WINDOW);
const _: () = assert!(MAX_REQUESTS_TO_MEMBERS * 2 <= net::MAX_CALLS_IN_FLIGHT);
