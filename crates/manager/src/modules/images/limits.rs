//! Named limits of images.

/// Most images of a cluster, those in the trash counted.
pub const MAX_IMAGES: usize = 10_000;

/// Most snapshots of an image.
pub const MAX_SNAPSHOTS: usize = 1_000;

/// Most branches among the layers that an image and its snapshots need. Branches that none of them needs are forgotten.
pub const MAX_IMAGE_BRANCHES: usize = 1_000;

/// Most images that are clones of each other in a row: a read may have to look into each of them.
pub const MAX_CLONE_DEPTH: usize = 16;

/// Longest name of an image or a snapshot.
pub const MAX_IMAGE_NAME_BYTES: usize = 255;

/// Sizes are multiples of it: what exports call a sector.
pub const IMAGE_SECTOR_BYTES: u64 = 512;

/// Smallest image: 1 MiB.
pub const MIN_IMAGE_BYTES: u64 = 1 << 20;

/// Largest image: 64 TiB. The index of a blob has room for many more.
pub const MAX_IMAGE_BYTES: u64 = 64 << 40;

/// Most copies of an image.
pub const MAX_IMAGE_COPIES: u8 = 3;

/// As [`crate::limits::NUMBER_LIMIT`], for layers of an image.
pub const LAYER_LIMIT: u32 = 1 << 31;

/// Most bytes of all images' records together, for the reason of [`crate::limits::MAX_POLICIES_BYTES`].
pub const MAX_IMAGES_BYTES: usize = 32 * 1024 * 1024;

/// What a record counts for in [`MAX_IMAGES_BYTES`], without its lists. As all of these it is a little more than the record can have.
pub const IMAGE_ROOM_BYTES: usize = MAX_IMAGE_NAME_BYTES + 138 + 5 * MAX_IMAGE_COPIES as usize;

/// As [`IMAGE_ROOM_BYTES`], for each snapshot.
pub const SNAPSHOT_ROOM_BYTES: usize = MAX_IMAGE_NAME_BYTES + 33;

/// As [`IMAGE_ROOM_BYTES`], for each branch.
pub const BRANCH_ROOM_BYTES: usize = 10;

/// As [`IMAGE_ROOM_BYTES`], for each device, in sync or out: a device must be able to go out at any time.
pub const DEVICE_ROOM_BYTES: usize = 16;

const _: () = assert!(MAX_IMAGE_BYTES / types::BLOB_BYTES as u64 <= u32::MAX as u64);
const _: () = assert!(MAX_IMAGES * IMAGE_ROOM_BYTES < MAX_IMAGES_BYTES);
