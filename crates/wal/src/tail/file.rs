//! A tail in a file: what is written is in the kernel's cache, which no end of a process takes away.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::Tail;

/// Size of the file: some thousand commands, of which a few dozen are made in the time of a write to a slow medium.
const TAIL_BYTES: usize = 4 * 1024 * 1024;

const OWNER_ONLY: u32 = 0o600;

/// A file of its own for one log.
#[derive(Debug)]
pub struct FileTail(File);

impl FileTail {
    /// Opens the file, or makes it. Blocks are written once over, so that a full file system takes none of them away.
    pub fn open(path: &Path) -> io::Result<FileTail> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY).open(path)?;
        // One that is short was being made: nothing was kept in it yet.
        if file.metadata()?.len() != TAIL_BYTES as u64 {
            file.set_len(0)?;
            file.write_all_at(&vec![0; TAIL_BYTES], 0)?;
            file.sync_all()?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()?;
        }
        Ok(FileTail(file))
    }
}

impl Tail for FileTail {
    fn size_bytes(&self) -> usize {
        TAIL_BYTES
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; TAIL_BYTES];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset as u64)
    }

    fn flush(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
