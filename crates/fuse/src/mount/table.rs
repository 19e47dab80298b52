//! `/proc/self/mountinfo`: which connection of the kernel's belongs to a mount point, without touching the mount.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Finds the FUSE mount on `point` that lies on top, and returns its device's minor: the connection's number.
pub(super) fn connection_of(mountinfo: &[u8], point: &Path) -> Option<u32> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    // Later lines are mounted over earlier ones.
    lines.filter_map(|line| connection_in_line(line, point.as_os_str().as_bytes())).next_back()
}

/// `36 35 0:98 / /mnt rw,noatime shared:1 - fuse.trilith source rw`
fn connection_in_line(line: &[u8], point: &[u8]) -> Option<u32> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    if unescape(fields.nth(1)?) != point {
        return None;
    }
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    if kind != b"fuse" && !kind.starts_with(b"fuse.") {
        return None;
    }
    let minor = device.split(|byte| *byte == b':').nth(1)?;
    std::str::from_utf8(minor).ok()?.parse().ok()
}

/// Space, tab, newline and backslash stand as three octal digits after a backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests;
