//! POSIX access control lists in the kernel's format of extended attributes: a version and entries of 8 bytes.

use fuse::Errno;

pub const ACCESS: &[u8] = b"system.posix_acl_access";
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const USER_OWNER: u16 = 0x01;
const GROUP_OWNER: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<(u16, u16, u32)>);

impl Acl {
    pub fn parse(value: &[u8]) -> Result<Self, Errno> {
        let (version, entries) = value.split_at_checked(4).ok_or(Errno::INVAL)?;
        if version != VERSION.to_le_bytes() || entries.len() % 8 != 0 {
            return Err(Errno::INVAL);
        }
        let short = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
        let parse =
            |entry: &[u8]| (short(entry), short(&entry[2..]), u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]));
        Ok(Acl(entries.chunks_exact(8).map(parse).collect()))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in &self.0 {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    /// Whether it says more than a mode can.
    pub fn is_extended(&self) -> bool {
        self.0.len() > 3
    }

    fn group_tag(&self) -> u16 {
        if self.0.iter().any(|entry| entry.0 == MASK) { MASK } else { GROUP_OWNER }
    }

    /// The permission bits that `stat` shows.
    pub fn mode(&self) -> u32 {
        let of = |tag| self.0.iter().find(|entry| entry.0 == tag).map_or(0, |entry| u32::from(entry.1));
        of(USER_OWNER) << 6 | of(self.group_tag()) << 3 | of(OTHER)
    }

    /// As chmod changes it.
    pub fn set_mode(&mut self, mode: u32) {
        self.map_mode(|_, wanted| wanted, mode);
    }

    /// As a file inherits it that is created with this mode. Returns the mode that the file gets.
    pub fn inherit(&mut self, mode: u32) -> u32 {
        self.map_mode(|has, wanted| has & wanted, mode);
        (mode & !0o777) | self.mode()
    }

    fn map_mode(&mut self, change: impl Fn(u16, u16) -> u16, mode: u32) {
        let group = self.group_tag();
        for entry in &mut self.0 {
            let shift = match entry.0 {
                USER_OWNER => 6,
                OTHER => 0,
                tag if tag == group => 3,
                _ => continue,
            };
            entry.1 = change(entry.1, (mode >> shift & 7) as u16);
        }
    }
}
