//! The limits of the chunk store.

use std::time::Duration;

use crate::placement::Permille;

/// Copies of registrations that may be pending in one unit. A put takes milliseconds, so these are far more than clients write at a time.
pub const MAX_PENDING_COPIES: usize = 3 * 65_536;
/// Relocations of one unit that may be under way.
pub const MAX_MOVING: usize = 1_024;
/// Targets of one chunk's relocations that were given up and are not forgotten yet: no other target is taken before one of these is forgotten. Giving up a growth
/// may add one more. A unit's image counts the copies of a chunk that ends by a byte.
pub const MAX_GIVEN_UP: usize = 64;
/// Blocks of one grant: a bulk of 1 GiB.
pub const MAX_GRANT_BLOCKS: u32 = 256;
/// How long a registration lasts. A client that needs longer for one chunk has died, or will do as well with another registration.
pub const PENDING_MS: u64 = 60_000;
/// With so many under way that can come to an end a leader begins no more for repairs. Those that can't, for all copies of their chunks were lost meanwhile, are no more than these then, and
/// leave the rest to others.
pub const MAX_HEALING: usize = MAX_MOVING / 4 * 3;
/// With so many under way none is begun for a repair that needs a node which is away: all would wait for it, and nothing else be made again.
pub const MAX_WAITING: usize = MAX_MOVING / 2;
/// Requests that may wait for one block of a node.
pub const MAX_WAITING_PER_BLOCK: usize = 64;
/// Tries of one call before the client is told that nothing answers.
pub const MAX_TRIES: u32 = 16;
/// Tries after which a client that meets a copy of another era does not believe in a relocation any more.
pub const MOVE_TRIES: u32 = 4;
/// How often a write is sent again to the same places before the client asks for them anew.
pub const MAX_RESENDS: u32 = 3;

/// Registrations of a shard unless something else is said: with full chunks 512 GiB. A unit takes memory for all of them from its start, and its
/// state is one snapshot, which has a limit.
pub const DEFAULT_SHARD_CHUNKS: u64 = 1 << 17;
/// Blocks of a device that are filled at a time.
pub const OPEN_BLOCKS: usize = 8;
/// Commands that a unit's leader may have not looked at yet; one that is further behind derives all anew.
pub const MAX_UNTAKEN: usize = 65_536;
/// Updates that may wait for one lookup host.
pub const MAX_UPDATES_WAITING: usize = 4_096;
/// A lookup update that is longer goes in pieces of this.
pub const PIECE_BYTES: usize = 1 << 20;
/// How long a lookup host may take over one message.
pub const HOST_PATIENCE: Duration = Duration::from_secs(5);
/// How long a node may take over one request of a unit's leader.
pub const ERRAND_PATIENCE: Duration = Duration::from_secs(10);
/// Errands of one leader that may be under way: those that end copies, have them forgotten, or ask what they are.
pub const MAX_DUTIES: usize = 256;
/// Steps of relocations.
pub const MAX_MOVE_ERRANDS: usize = 128;
/// Bytes of contents that the leaders of a node's units, all of them together, have in memory for relocations: 64 of the longest.
pub const MAX_CONTENTS_BYTES: u32 = 256 << 20;
/// A relocation whose target did not take the content waits for so many ticks of its leader, a second, and keeps none meanwhile.
pub const BRING_REST_TICKS: u32 = 10;
/// Contents that are written again where they have rotted.
pub const MAX_MENDS: usize = 64;
/// Of each of these with a node that was not heard of lately: enough to find out when it is back before it says so.
pub const MAX_SILENT_ERRANDS: usize = 1;
/// Proposals of one leader that may be under way and that nobody waits for.
pub const MAX_PROPOSALS: usize = 256;
/// Copies on one lost device for which a leader begins relocations at a time.
pub const MAX_REPAIRS: usize = 256;
/// A put whose hosts are not all there is acknowledged with fewer copies than it wants, but not with fewer than this,
/// unless the cluster has fewer hosts.
pub const MIN_COPIES: usize = 2;
/// How long a leader looks in vain for a place for lost copies before their places are given up: a node that takes the lost one's place may be about to come.
pub const SHRINK_WAIT: Duration = Duration::from_secs(10);
/// Chunks with fewer copies than are wanted that a leader looks at each time, and whose rows it takes out of pages.
pub const MAX_GROWTH_LOOKS: usize = 1_024;
pub const MAX_GROWTH_ROWS: usize = 8_192;
/// Missing copies that a leader remembers.
pub const MAX_MISSING: usize = 65_536;
/// How often a leader looks through all chunks for copies in lost places, when it has found none left.
pub const LOST_LOOK: Duration = Duration::from_secs(60);
/// How long a leader remembers a rotten copy of which a report that had no room for all says nothing: by then the node has told of it again.
pub const ROTTEN_AGE: Duration = Duration::from_secs(60);
/// The same of a damaged block: a node goes round 1.2 million of them meanwhile, which are 4.7 TiB.
pub const DAMAGED_AGE: Duration = Duration::from_secs(600);
/// How long a leader tries to have a rotten copy written again where it stands, before it is made elsewhere.
pub const MEND_PATIENCE: Duration = Duration::from_secs(15);
/// Damaged blocks whose chunks a leader looks for at a time.
pub const MAX_SOUGHT_BLOCKS: usize = 64;
/// How often their nodes are asked to condemn them, one look after the other, before others have their turn.
pub const MAX_CONDEMN_TRIES: u32 = 3;
/// How often a leader looks through all chunks for damaged blocks that can be condemned.
pub const CONDEMN_LOOK: Duration = Duration::from_secs(5);
/// Within this time a leader asks once whether each copy is there.
pub const AUDIT_PERIOD: Duration = Duration::from_secs(24 * 3600);
/// How often a leader looks for what there is to do.
pub const LEADER_TICK: Duration = Duration::from_millis(100);
/// How often a leader looks at nodes and devices anew.
pub const STOCK_AGE: Duration = Duration::from_secs(1);
/// How long a block gets nothing whose node refused a copy though the unit saw room: it is in pieces there.
pub const REFUSAL_REST: Duration = Duration::from_secs(30);
/// Leaderships of units with pages that begin on a node at a time: each needs all rows of its shard for that, some 150 MB of a full one.
pub const MAX_BEGINNING: usize = 4;
/// A node that has not reported for so long gets no new chunks.
pub const NODE_SILENCE: Duration = Duration::from_secs(3);
/// How often nodes report.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// A node that has no news for a closed shard says each time so often that it is there: there may be thousands of them, and little goes there.
pub const CLOSED_REPORT_ROUNDS: u32 = 20;
/// A node that has not reported to a closed shard for so long, and is none of its lookup hosts, gets no copies of its chunks.
pub const CLOSED_SILENCE: Duration = Duration::from_secs(25);
/// Empty blocks that a unit keeps on each device; with fewer it asks for another bulk. Where something fits beside others need not be room for a large chunk.
pub const STOCK_BLOCKS: u32 = 64;
/// How long the answer to a commit waits for a lookup host. Beyond it none is there, and readers ask the unit: nothing is lost by that.
pub const COMMIT_PATIENCE: Duration = Duration::from_secs(2);
/// Tries of a registration whose places were taken meanwhile.
pub const MAX_REGISTER_TRIES: u32 = 8;
/// How often the leader of a unit whose shard is closed looks for bulks in which nothing is.
pub const IDLE_LOOK: Duration = Duration::from_secs(60);
/// A closed shard's bulk is emptied when no more of it is used, and the device's others have room for that.
pub const COMPACT_BELOW: Permille = Permille(500);
/// Copies that are moved for that at a time, and bytes each second.
pub const MAX_COMPACTING: usize = 256;
pub const COMPACT_BYTES: u32 = 32 << 20;
/// A device that has space for fewer further blocks than this share of all is short of it: spans with little in them are emptied, and go back to its pool.
pub const PRESSED_BELOW: Permille = Permille(100);
/// No span is emptied of which the blocks are fuller than this: what is won would cost more than its length in moved bytes.
pub const CLEAR_BELOW: Permille = Permille(800);
/// Bytes of one plan for a device: what moves before the gaps of its blocks are asked for again. [`COMPACT_BYTES`] of them each second.
pub const CLEAR_BYTES: u32 = 4 * COMPACT_BYTES;
/// Devices of which a leader empties spans at a time.
pub const MAX_CLEARED_DEVICES: usize = 16;
/// How long a plan may take until another one is made; and how long a device rests of which nothing could be emptied.
pub const CLEAR_PATIENCE: Duration = Duration::from_secs(60);
pub const CLEAR_REST: Duration = Duration::from_secs(10);
/// How long a registration waits for space that the manager has, or has granted, and the unit does not know yet; less than its client waits.
pub const SPACE_PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks for it.
pub const SPACE_LOOK: Duration = Duration::from_millis(20);
/// How long a node may take to acknowledge a request that a host forwards.
pub const FORWARD_PATIENCE: Duration = Duration::from_secs(1);
/// How long a node that did not answer is passed by.
pub const BREAKER_WAIT: Duration = Duration::from_secs(2);
/// A client asks at most this often where everything is because a lookup host did not do what was asked.
pub const LOOK_AROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Nodes that a client asks not to be given for a chunk. Beyond that some are given.
pub const MAX_AVOIDED: usize = 64;
/// How long a client may take to take its answer.
pub const DELIVERY_PATIENCE: Duration = Duration::from_secs(5);
/// How long one member of a unit may take to answer before another is asked.
pub const UNIT_PATIENCE: Duration = Duration::from_secs(4);
/// The same where it has to read all of its pages: 641 of a full shard, [`PAGE_READS`] at a time, which may take 370 ms each.
pub const LAST_COPIES_PATIENCE: Duration = Duration::from_secs(30);
/// Pause before somebody else is asked who leads.
pub const LEADER_PAUSE: Duration = Duration::from_millis(50);
/// How long a client waits before it tries something else.
pub const CLIENT_PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a message that did not arrive, before the client tries something else.
pub const CLIENT_PAUSE: Duration = Duration::from_millis(100);
/// How long a client tries to reach a unit's leader.
pub const CLIENT_UNIT_PATIENCE: Duration = Duration::from_secs(10);
/// How long one call of a client may take, whatever it tries.
pub const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// Events of one call that wait for its machine.
pub const MAX_EVENTS: usize = 64;
/// Times that a put is registered anew, at other places, because a node did not answer.
pub const MAX_PUT_TRIES: u32 = 6;
/// The first of these that are made at once: other places will do mostly. Then there is a pause before each: where there are no others, the unit's leader must miss the
/// node before it does without it, and a new leader waits for that as well.
pub const QUICK_PUT_TRIES: u32 = 2;
pub const PUT_PAUSE: Duration = Duration::from_millis(1_200);
/// How often a unit is asked to end a chunk whose commit nobody has answered for, while it is too busy to.
pub const MAX_TAKE_BACKS: u32 = 8;
/// How often a put sends copies again to the places that it was given, before it asks for others.
pub const MAX_PUT_RESENDS: u32 = 1;
/// Copies of a page of a closed shard's unit. With fewer hosts its rows stay in memory.
pub const PAGE_COPIES: usize = 3;
/// How long one copy of a page may take to be read, or written.
pub const PAGE_PATIENCE: Duration = Duration::from_secs(2);
/// How long a page rests of which no copy was to be had, where that keeps nobody waiting.
pub const PAGE_REST: Duration = Duration::from_secs(10);
/// Pages that are read at a time.
pub const PAGE_READS: usize = 8;
/// Pages of a unit that stay in memory when they were read.
pub const CACHED_PAGES: usize = 4;
/// Pause between two pages that are written.
pub const PAGE_PAUSE: Duration = Duration::from_millis(20);
/// How often a page is read anew because another one has taken its place meanwhile.
pub const MAX_PAGE_TRIES: u32 = 4;
/// With so many rows of pages in memory a leader looks for no more there. Rows that no page has had yet don't count: they are there in any case.
pub const MAX_SWEPT: usize = 65_536;
/// Members of a unit's group.
pub const UNIT_MEMBERS: usize = groups::limits::MEMBERS;
/// Hosts of a shard's lookup units.
pub const SHARD_HOSTS: usize = 3;
/// How often nodes tell the monitor of their load.
pub const LOAD_INTERVAL: Duration = Duration::from_secs(10);
/// What a node said longer ago does not count.
pub const LOAD_AGE: Duration = Duration::from_secs(35);
/// A node that has not told the monitor of its load for so long founds no unit, where others do; and no member or host is replaced by one. Shorter than the other age: one that
/// has lost a report is passed by where others will do, and is not away for that.
pub const HEARD_AGE: Duration = Duration::from_secs(12);
/// How often a node looks whether another one leads the manager: that has not heard of any load yet.
pub const LOAD_LOOK: Duration = Duration::from_millis(500);
/// How often the monitor asks whether the open shard's unit is there.
pub const OPEN_LOOK: Duration = Duration::from_secs(10);
/// A shard whose unit has not answered for so long takes no more chunks: the next one is opened. Twice as long for each that follows it.
pub const OPEN_SILENCE: Duration = Duration::from_secs(60);
pub const MAX_OPEN_SILENCE: Duration = Duration::from_secs(3_600);
/// A unit that has had no room in a consensus log for registrations for so long has its shard closed: the next one is opened. Twice as long for each that its node closes then.
pub const CROWDED_PATIENCE: Duration = Duration::from_secs(60);
pub const MAX_CROWDED_PATIENCE: Duration = Duration::from_secs(3_600);
/// Bytes of a registration in the log, at most.
pub const REGISTRATION_BYTES: usize = 128;
/// Hot copies of one report.
pub const MAX_HOT: usize = 64;
/// How often the monitor compares the nodes' heat.
pub const BALANCE_INTERVAL: Duration = Duration::from_secs(30);
/// A node is hotter than it should be when it is asked so much more than the mean.
pub const BALANCE_TOLERANCE: Permille = Permille(250);
/// Requests a second that any node can do: nothing moves for fewer.
pub const BALANCE_FLOOR: u64 = 200;
/// Hot copies that are looked at, and relocations that are begun, each time.
pub const MAX_BALANCE_LOOKS: usize = 64;
pub const MAX_BALANCE_MOVES: usize = 8;
/// How long a chunk rests that was to move: longer than the averages need to follow.
pub const BALANCE_REST: Duration = Duration::from_secs(600);
/// How often the monitor looks at the cluster.
pub const MONITOR_TICK: Duration = Duration::from_millis(500);
/// How long a node may take to say where everything is.
pub const MAP_PATIENCE: Duration = Duration::from_secs(3);
/// Messages of one client that nobody waits for and that are under way: more are not sent, which costs later readers a little.
pub const MAX_TELLS: u32 = 1_024;
/// How long a node answers about its blocks after the manager was last heard.
pub const CONTACT_LEASE: Duration = Duration::from_secs(5);
/// How long a unit's leader waits before it takes a device for lost that the manager has forgotten: the lease of its node, by a clock whose rate differs by
/// 1 part in 10, and what was under way.
pub const LOSS_WAIT: Duration = Duration::from_secs(6);

const _: () = assert!(HEARD_AGE.as_millis() > LOAD_INTERVAL.as_millis() && HEARD_AGE.as_millis() < LOAD_AGE.as_millis());
const _: () = assert!(LOSS_WAIT.as_millis() * 10 >= CONTACT_LEASE.as_millis() * 11);
const _: () = assert!(CLOSED_SILENCE.as_millis() >= 2 * CLOSED_REPORT_ROUNDS as u128 * REPORT_INTERVAL.as_millis());
const _: () = assert!(
    (MAX_PUT_TRIES - QUICK_PUT_TRIES) as u128 * PUT_PAUSE.as_millis() > NODE_SILENCE.as_millis() + STOCK_AGE.as_millis()
);
const _: () = assert!(SPACE_PATIENCE.as_millis() < UNIT_PATIENCE.as_millis());
