//! The limits of the volume engine.

use std::time::Duration;

use allack::limits::LogLimits;

/// Most mutations and reads that are under way at once; further ones wait.
pub const MAX_REQUESTS: usize = 1024;
/// Latches of names. Two names may share one, which costs waits and nothing else.
pub const LATCHES: usize = 1024;

/// A piece of content is at most so long: the log engine's chunk.
pub const PIECE_BYTES: usize = types::limits::CHUNK_BYTES;
/// Content that one checksum covers.
pub const SUM_BYTES: usize = 64 * 1024;

/// How full a group's log is, is told in so many parts.
pub const LOG_PARTS: usize = 8;
/// A dump begins when so many are used.
pub const DUMP_AT_PARTS: usize = 4;
/// What needs space waits for a dump when so many are. What gives space back uses the others.
pub const HOLD_AT_PARTS: usize = 6;
/// How long requests wait after a dump that has left the log nearly full, before the next one.
pub const DUMP_RETRY: Duration = Duration::from_millis(20);

/// Rows of a dump that are copied under one hold of the lock.
pub const SLICE_ROWS: usize = 512;
/// Blocks of one chunk of a dump.
pub const CHUNK_BLOCKS: u32 = 64;
/// Free blocks that puts leave for the next dump, beside what its rows are known to need.
pub const DUMP_BLOCKS: u64 = 2 * CHUNK_BLOCKS as u64;

/// Outcomes of completed uploads that are remembered, the newest.
pub const MAX_OUTCOMES: usize = 10_000;

/// The next unit gets its space when less than one part in so many of a unit is free.
pub const AHEAD_SHARE: u64 = 4;
/// Runs of free blocks that one search looks at.
pub const RUNS_LOOKED_AT: usize = 64;
/// Reads under way while a store is opened.
pub const LOAD_READS: usize = 32;
/// How often the store looks whether there is something to settle or to give back.
pub const MAINTAIN_INTERVAL: Duration = Duration::from_secs(1);

/// Sizes of logs.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bounds of a group's log: the names are written before it is full.
    pub log: LogLimits,
    /// Segments of the log that all groups of a device share.
    pub segments: usize,
    pub segment_bytes: u64,
    pub journal: JournalShape,
}

/// The journal of small writes of a device.
#[derive(Clone, Copy, Debug)]
pub struct JournalShape {
    pub segments: usize,
    pub segment_bytes: u64,
    /// Smaller devices have none.
    pub least_device_bytes: u64,
    /// A write is journaled when so many are under way with it.
    pub from_writes: usize,
}

/// The longest write that is journaled.
pub const JOURNALED_BYTES: usize = 16 * 1024;
/// Most bytes of a device that are journaled, and not in their places: they are in memory too.
pub const MAX_PENDING_BYTES: usize = 4 * 1024 * 1024;
/// So many go to their places at once.
pub const URGENT_PENDING_BYTES: usize = 1024 * 1024;
/// How long fewer wait, so that more neighbours come.
pub const JOURNAL_PAUSE: Duration = Duration::from_millis(20);

/// A group's log can be made so many times shorter. In a shorter one, what is kept for a start leaves no room between a dump's beginning and a full log.
pub const MAX_LOG_DIVISOR: usize = 4;

impl Shape {
    /// Each group's log takes one part in so many. The log of the device stays as it is.
    pub fn with_logs_divided_by(self, divisor: usize) -> Shape {
        assert!((1..=MAX_LOG_DIVISOR).contains(&divisor), "a group's log can't be divided by {divisor}");
        let log = LogLimits { entries: self.log.entries / divisor, bytes: self.log.bytes / divisor };
        Shape { log, ..self }
    }
}

pub const SHAPE: Shape = Shape {
    log: LogLimits { entries: 8192, bytes: 2 * 1024 * 1024 },
    segments: 20,
    segment_bytes: 4 * 1024 * 1024,
    journal: JournalShape { segments: 8, segment_bytes: 4 * 1024 * 1024, least_device_bytes: 2 << 30, from_writes: 4 },
};
const _: () = {
    // As `allack` counts it: the logs of all groups fill half of it at most.
    let most = SHAPE.log.bytes + SHAPE.log.entries * 20 + 4096;
    assert!(most * manager::PLACEMENT_GROUPS as usize <= SHAPE.segments * SHAPE.segment_bytes as usize / 2);
};
/// Of a group's log, what only the records of a start may take: a log that is full can still be opened, and be dumped behind that.
pub const START_ENTRIES: usize = 16;
pub const START_BYTES: usize = 128 * 1024;
/// A unit of a group's volume: space is got and counted by it, on whichever device a copy stands.
pub const LOGICAL_UNIT_BYTES: u64 = 4 * 1024 * 1024;
/// How long a copy may take for one question.
pub const COPY_PATIENCE: Duration = Duration::from_secs(5);
/// How long one may take to get space: zeros are written.
pub const SPACE_PATIENCE: Duration = Duration::from_secs(60);
/// What changes no block is asked of a copy so often again.
pub const ASK_TRIES: u32 = 2;
/// A new primary asks a member so often whether it knows the view.
pub const MEET_TRIES: u32 = 20;
pub const MEET_PAUSE: Duration = Duration::from_millis(100);
/// A learner is asked so often, and waited for so long, before the group is open.
pub const MEET_LEARNER_TRIES: u32 = 5;
pub const MEET_LEARNER_PATIENCE: Duration = Duration::from_secs(2);
/// A learner that lacks more units gets its space while the group is open, and is filled under the next view.
pub const MEET_UNITS: usize = 4;
/// How long the log of a learner may take to have everything, when its copy has.
pub const LEARNER_PATIENCE: Duration = Duration::from_secs(60);
/// How often a primary looks whether its members hold it up.
pub const STALL_INTERVAL: Duration = Duration::from_millis(500);
/// After so many looks without progress it asks for a view without them: 8 s, longer than a copy may take. Looks are counted, since a process may stand still.
pub const STALL_LOOKS: u32 = 16;
/// After so long without becoming active a view gets another primary. Its own looks come first.
pub const INACTIVE_PATIENCE: Duration = Duration::from_secs(15);
/// How long a primary may answer after it has seen that its view is the newest.
pub const LEASE: Duration = Duration::from_secs(2);
/// How long the lease of a former primary is waited for: clocks run differently.
pub const FORMER_LEASE: Duration = Duration::from_millis(2200);
/// How often a primary looks whether its view is the newest.
pub const RENEW_INTERVAL: Duration = Duration::from_millis(400);
/// How often members look what is due.
pub const MEMBER_TICK: Duration = Duration::from_millis(20);
/// Messages that wait for one node; older ones are dropped, and said again later.
pub const MAX_WAITING_MESSAGES: usize = 4096;
/// Bytes of messages that travel together.
pub const MESSAGE_BATCH_BYTES: usize = 1024 * 1024;
pub const MESSAGE_PATIENCE: Duration = Duration::from_secs(1);
/// After a view that could not be served, the next one is asked for not before.
pub const NEXT_VIEW_PAUSE: Duration = Duration::from_millis(500);
/// How often the manager's leader looks at the groups.
pub const KEEPER_INTERVAL: Duration = Duration::from_millis(500);
/// How long the manager's leader hears of nodes before it believes that some are silent.
pub const KEEPER_HEARING: Duration = Duration::from_secs(3);
/// How long a view rests before a learner is named in another one.
pub const LEARNER_PAUSE: Duration = Duration::from_secs(4);
/// How long a primary that no other node can replace waits after it could not open its group.
pub const SHUT_PAUSE: Duration = Duration::from_secs(10);
/// Copies of a group's objects, where there are nodes enough.
pub const GROUP_COPIES: usize = 3;
/// Readers and writers of large objects that other nodes hold at one primary of a group.
pub const MAX_HELD: usize = 4096;
/// They are given up when they were not asked for in this time.
pub const HELD_IDLE: Duration = Duration::from_secs(120);
/// How long a gateway looks for a group's primary.
pub const PRIMARY_PATIENCE: Duration = Duration::from_secs(20);
pub const PRIMARY_PAUSE: Duration = Duration::from_millis(50);
/// How long one question to a primary may take.
pub const QUESTION_PATIENCE: Duration = Duration::from_secs(30);

/// How long a node that stops takes at most to note what is settled.
pub const SETTLE_PATIENCE: Duration = Duration::from_secs(1);

/// Findings of a check that are told one by one.
pub const MAX_FINDINGS: usize = 1000;
/// How long a check waits until a group is open.
pub const CHECK_PATIENCE: Duration = Duration::from_secs(60);
