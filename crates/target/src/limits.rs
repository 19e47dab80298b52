//! Named limits of targets on other nodes.

use std::time::Duration;

/// How long an append to another node may take, from its call to its answer; the target does not submit it to the disk later.
pub const APPEND_DEADLINE: Duration = Duration::from_secs(2);
/// An append from the same process is not submitted to the disk later than this, and is given up then, if the disk hangs.
pub const OWN_APPEND_DEADLINE: Duration = device::limits::HANG_TIME;
/// How long a read may take; in a cell also one from the same process.
pub const READ_DEADLINE: Duration = Duration::from_secs(5);
/// Reads of one device of another node that are under way at the same time; more wait for a turn, within their deadline. Those of a disk that
/// hangs leave room on the connection that it shares with its node's other disks and with everything else.
pub const MAX_READS_IN_FLIGHT: usize = 64;
const _: () = assert!(4 * MAX_READS_IN_FLIGHT <= net::MAX_CALLS_IN_FLIGHT);
/// How long a reset, the finishing of zones, or a question may take; in a cell also of a target in the same process.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// How long one page of a walk may take: without any frame it reads a whole zone. In a cell also one step of a walk in the same process.
pub const WALK_DEADLINE: Duration = Duration::from_secs(60);
/// How long a fence, a drain or a seal may take; of a target in the same process too (`node`).
pub const CONTROL_DEADLINE: Duration = Duration::from_secs(30);
/// Fences that are raised at one target of another node at the same time.
pub const FENCES_AT_ONCE: usize = 64;

/// How old the known state of another node's device gets.
pub const STATE_INTERVAL: Duration = Duration::from_millis(500);
/// The least time between two questions for it.
pub const STATE_PAUSE: Duration = Duration::from_millis(20);

/// Requests with appends of one writer to one target that wait for their answers; appends gather meanwhile for the next.
pub const MAX_BATCHES_IN_FLIGHT: usize = 4;
/// A request ends when it has this many bytes. One longer append makes a request of its own.
pub const BATCH_BYTES: usize = 256 << 10;
const _: () = assert!(BATCH_BYTES < net::MAX_PAYLOAD_BYTES);
/// An append joins the request before it if that was begun so shortly before: they share a deadline.
pub const JOIN_TIME: Duration = Duration::from_millis(100);
/// Appends that wait to be sent.
pub const MAX_APPENDS_QUEUED: usize = 1024;
/// Bytes of frames that wait so.
pub const MAX_BYTES_QUEUED: usize = 64 << 20;

/// Pause before a session is asked for again.
pub const SESSION_PAUSE: Duration = Duration::from_millis(50);
/// Writers with a session at one target.
pub const MAX_SESSIONS: usize = format::superblock::fences::MAX_FENCES;

/// A page of a walk ends with the frame that makes it this long...
pub const WALK_PAGE_BYTES: usize = 256 << 10;
/// ... or when so much was read for it from the device.
pub const WALK_PAGE_READ_BYTES: u64 = 32 << 20;
/// How often a page is asked for that was not answered.
pub const WALK_TRIES: usize = 3;
/// Pause between two tries.
pub const WALK_PAUSE: Duration = Duration::from_millis(200);

/// Longest reason of a failure that is sent, in bytes.
pub const MAX_REASON_BYTES: usize = 1024;
