//! POSIX access control lists, in the kernel's format of the attributes `system.posix_acl_access` and `system.posix_acl_default`.
//!
//! ```text
//! ┌───────────┬──────────────────────────────────────┬─────
//! │ version 2 │ tag: 2, permissions: 2, id: 4 bytes  │ …     all little-endian
//! │ 4 bytes   │ 8 bytes an entry                     │
//! └───────────┴──────────────────────────────────────┴─────
//! ```
//!
//! The kernel checks them. The file system keeps the mode in step, and new inodes inherit them (POSIX.1e draft 17, section 23).

pub const ACCESS: &[u8] = b"system.posix_acl_access";
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const HEADER_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;

const USER_OWNER: u16 = 0x01;
const GROUP_OWNER: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Entries of the two owners and all others: a mode says as much.
const PLAIN_ENTRIES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// None where the bytes are no list of the format.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_at_checked(HEADER_BYTES)?;
        if version != VERSION || !entries.len().is_multiple_of(ENTRY_BYTES) {
            return None;
        }
        let short = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let parse = |bytes: &[u8]| AclEntry {
            tag: short(bytes, 0),
            permissions: short(bytes, 2),
            id: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        };
        Some(Acl(entries.chunks_exact(ENTRY_BYTES).map(parse).collect()))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for entry in &self.0 {
            bytes.extend_from_slice(&entry.tag.to_le_bytes());
            bytes.extend_from_slice(&entry.permissions.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// Whether it says more than a mode can.
    pub fn is_extended(&self) -> bool {
        self.0.len() > PLAIN_ENTRIES
    }

    /// The entry that the group's bits of the mode stand for.
    fn group_tag(&self) -> u16 {
        if self.0.iter().any(|entry| entry.tag == MASK) { MASK } else { GROUP_OWNER }
    }

    /// The permission bits that `stat` shows.
    pub fn mode(&self) -> u32 {
        let of = |tag| self.0.iter().find(|entry| entry.tag == tag).map_or(0, |entry| u32::from(entry.permissions));
        of(USER_OWNER) << 6 | of(self.group_tag()) << 3 | of(OTHER)
    }

    /// As chmod changes it.
    pub fn set_mode(&mut self, mode: u32) {
        self.map_mode(|_, wanted| wanted, mode);
    }

    /// The access list of a file that is created with `mode` under this default list. Its mode is [`Acl::mode`].
    pub fn inherited(&self, mode: u32) -> Self {
        let mut acl = self.clone();
        acl.map_mode(|has, wanted| has & wanted, mode);
        acl
    }

    fn map_mode(&mut self, change: impl Fn(u16, u16) -> u16, mode: u32) {
        let group = self.group_tag();
        for entry in &mut self.0 {
            let shift = match entry.tag {
                USER_OWNER => 6,
                OTHER => 0,
                tag if tag == group => 3,
                _ => continue,
            };
            entry.permissions = change(entry.permissions, (mode >> shift & 7) as u16);
        }
    }
}

#[cfg(test)]
mod tests;
