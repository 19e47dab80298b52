//! Superblock, regions and the zone discipline of one device.
