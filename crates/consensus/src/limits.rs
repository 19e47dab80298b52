//! Every limit of this crate.

use std::time::Duration;

/// Longest command of a state machine.
pub const MAX_COMMAND_BYTES: usize = 512 * 1024;
/// Longest snapshot of a state machine. It is kept in memory and in the log; what grows beyond it is split into more groups.
pub const MAX_SNAPSHOT_BYTES: usize = 256 * 1024 * 1024;
/// One piece of a snapshot, as a record of the log and on its way to a peer.
pub const SNAPSHOT_PIECE_BYTES: usize = 256 * 1024;
/// Bytes of entries in one record of the log or in one request; a single entry may be longer.
pub const MAX_BATCH_BYTES: usize = 512 * 1024;
/// Entries in one request.
pub const MAX_BATCH_ENTRIES: usize = 1024;
/// Members of one group, learners included.
pub const MAX_MEMBERS: usize = 16;
/// Longest address of a member.
pub const MAX_ADDRESS_BYTES: usize = 256;
/// Groups of one process.
pub const MAX_GROUPS: usize = 4096;

/// Proposals of one group that wait for their outcome; more are refused.
pub const MAX_PROPOSALS: usize = 1024;
/// How long a proposal may take; after that its outcome is unknown to the caller.
pub const PROPOSAL_LIMIT: Duration = Duration::from_secs(10);
/// How long a linearizable read may take.
pub const READ_LIMIT: Duration = Duration::from_secs(5);

/// How long a new member may take to catch up. It stays a learner if it takes longer.
pub const CATCH_UP_LIMIT: Duration = Duration::from_secs(60);

/// Segments of the shared log at most, unless its owner has less room: 1.5 GiB in a folder.
pub const MAX_LOG_SEGMENTS: usize = 192;
/// Segments of the shared log at least: fewer leave nothing for what groups need.
pub const MIN_LOG_SEGMENTS: usize = 8;
/// Bytes of a segment of a shared log in a folder.
pub const FOLDER_SEGMENT_BYTES: u64 = 8 * 1024 * 1024;
/// Segments that entries and snapshots leave free: for votes and for what gives records up.
pub const RESERVED_SEGMENTS: usize = 2;
/// The log is tidied up when it has more segments than twice what its contents need, plus these; earlier if there is less room.
pub const SLACK_SEGMENTS: usize = 3;
/// Tidying up writes at most so many bytes again for each byte that was written otherwise, and so does an early snapshot for each byte of the
/// entries that it covers, besides these.
pub const MAX_REWRITES: usize = 4;
/// Entries of fewer bytes are not worth an early snapshot, however short it is.
pub const EARLY_SNAPSHOT_BYTES: usize = 64 * 1024;
/// Of fewer bytes than this not even where a log is so full that nothing is taken that makes a state longer.
pub const FULL_SNAPSHOT_BYTES: usize = 4 * 1024;
/// How often the log is looked after when nobody asks.
pub const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);
/// How long a node that stops waits for the mark behind its log.
pub(crate) const LAST_MARK_LIMIT: Duration = Duration::from_millis(500);

/// A group makes a snapshot after so many entries ...
pub const SNAPSHOT_AFTER_ENTRIES: u64 = 4096;
/// ... or after so many bytes of them, whichever comes first.
pub const SNAPSHOT_AFTER_BYTES: usize = 8 * 1024 * 1024;
/// Entries that stay in the log behind a snapshot, for followers that are a little behind.
pub const KEPT_ENTRIES: u64 = 256;

/// The same of a group whose state is rows: a snapshot of these is long, and costs nothing to make.
pub const KEPT_ENTRIES_BESIDE_ROWS: u64 = 16_384;
/// Such a group keeps entries for members that are behind, or that a snapshot is sent to, until they have so many bytes.
pub const MAX_KEPT_BYTES_BESIDE_ROWS: usize = 64 * 1024 * 1024;
/// Rows in one batch when a generation of them is given up.
pub const GIVEN_UP_ROWS: usize = 4096;
/// Rows that a machine takes in at once, while no reader looks at it.
pub const LOAD_ROWS: usize = 1024;

/// How often a leader makes itself heard.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(150);
/// How long heartbeats of one tick are collected before they leave, one message for each peer.
pub const HEARTBEAT_GATHERING: Duration = Duration::from_millis(5);
/// How long a node waits for a slow group before it answers for the others.
pub const HEARTBEAT_ANSWER_LIMIT: Duration = Duration::from_millis(100);
/// Heartbeats in one message; a tick of more groups sends several.
pub const MAX_HEARTBEATS_PER_MESSAGE: usize = 4096;
/// A follower that has heard nothing for the leader's lease waits this long more, by chance between the two, and stands for election.
pub const ELECTION_TIMEOUT_MIN: Duration = Duration::from_millis(750);
/// The longest of it; also the leader's lease.
pub const ELECTION_TIMEOUT_MAX: Duration = Duration::from_millis(1250);
/// How long after a quorum last acknowledged it a leader may take itself for the only one. Followers vote for nobody else for that long.
pub const LEADER_LEASE: Duration = ELECTION_TIMEOUT_MAX;
/// What a lease read leaves of the lease: two clocks may differ by 1 part in 10 in their rates while one lease runs.
pub const READ_LEASE: Duration = Duration::from_millis(1125);
/// How often a group looks at its timers.
pub const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// How long one request to a peer may take.
pub const REQUEST_LIMIT: Duration = Duration::from_millis(1000);
/// How long a peer may take over one piece of a snapshot; the last one is answered when all of it is durable.
pub const SNAPSHOT_PIECE_LIMIT: Duration = Duration::from_secs(5);
/// How long a peer may take until a snapshot of rows is the state of its machine, once all rows are there.
pub const ROWS_INSTALL_LIMIT: Duration = Duration::from_secs(120);
/// Snapshots that a process takes in at the same time.
pub const MAX_INCOMING_SNAPSHOTS: usize = 8;
/// How long a snapshot that nobody continues is kept.
pub const INCOMING_SNAPSHOT_LIMIT: Duration = Duration::from_secs(60);

/// Requests to a group's own task that wait.
pub(crate) const MAX_GROUP_QUEUE: u64 = 1024;
/// Notices between the tasks of a group that wait.
pub(crate) const MAX_NOTICE_QUEUE: u64 = 1024;
/// Orders to a state machine that wait.
pub(crate) const MAX_MACHINE_QUEUE: u64 = 128;

const _: () = assert!(MAX_LOG_SEGMENTS <= wal::MAX_SEGMENTS);
const _: () = assert!(READ_LEASE.as_millis() < LEADER_LEASE.as_millis());
const _: () = assert!(HEARTBEAT_INTERVAL.as_millis() * 3 < ELECTION_TIMEOUT_MIN.as_millis());
const _: () = assert!(MAX_BATCH_BYTES + MAX_COMMAND_BYTES < net::MAX_PAYLOAD_BYTES);
