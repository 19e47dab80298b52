//! Images to raw files, and raw files to images.

use super::Images;
use crate::commands::size::human;
use anyhow::{Context, bail};
use bench::{output, tell};
use block::protocol::{Ask, MAX_CONTENT_BYTES, Told};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Images are made of whole sectors of so many bytes.
const SECTOR_BYTES: u64 = 512;
/// The smallest image.
const LEAST_IMAGE_BYTES: u64 = 1 << 20;

/// Shows how far a long work is, where a person sees it.
struct Progress {
    what: &'static str,
    of: u64,
    told_percent: Option<u64>,
}

impl Progress {
    fn new(what: &'static str, of: u64) -> Progress {
        Progress { what, of, told_percent: None }
    }

    fn show(&mut self, at: u64) {
        let percent = at * 100 / self.of.max(1);
        if io::stderr().is_terminal() && self.told_percent.replace(percent) != Some(percent) {
            let end = if at >= self.of { "\n" } else { "" };
            output::prompt(format_args!("\r{} {percent:3}% of {}{end}", self.what, human(self.of)));
        }
    }
}

/// Writes an image, or a snapshot, to a raw file. Zeros become holes.
pub async fn export(server: &Images, from: &str, file: &Path) -> anyhow::Result<()> {
    let (image, snapshot) = match from.split_once('@') {
        Some((image, snapshot)) => (image.to_owned(), Some(snapshot.to_owned())),
        None => (from.to_owned(), None),
    };
    let info = super::info(server, image.clone()).await?;
    let size = match &snapshot {
        None => info.size_bytes,
        Some(name) => {
            let found = info.snapshots.iter().find(|snapshot| snapshot.name == *name);
            found.with_context(|| format!("{image} has no snapshot {name}"))?.size_bytes
        }
    };
    let source = Source { image, id: info.id, snapshot };
    if file == Path::new("-") {
        let mut out = io::stdout().lock();
        return each_part(server, &source, size, |_, length, parts| {
            let mut whole = vec![0; length as usize];
            parts.iter().for_each(|(at, bytes)| whole[*at as usize..][..bytes.len()].copy_from_slice(bytes));
            Ok(out.write_all(&whole)?)
        })
        .await;
    }
    let new = || format!("making {}: an export overwrites nothing", file.display());
    let out = File::create_new(file).with_context(new)?;
    if let Err(error) = to_file(server, &source, size, out).await {
        // A part of an image would look like all of it.
        let rest = if std::fs::remove_file(file).is_ok() { "removed again" } else { "not whole: remove it" };
        return Err(error.context(format!("exporting to {}, which is {rest}", file.display())));
    }
    Ok(tell!("wrote {from} to {}, {}", file.display(), human(size))?)
}

/// What is exported.
struct Source {
    image: String,
    id: u64,
    snapshot: Option<String>,
}

async fn to_file(server: &Images, source: &Source, size: u64, mut out: File) -> anyhow::Result<()> {
    out.set_len(size)?;
    each_part(server, source, size, |offset, _, parts| {
        for (at, bytes) in parts {
            out.seek(SeekFrom::Start(offset + u64::from(*at)))?;
            out.write_all(bytes)?;
        }
        Ok(())
    })
    .await?;
    Ok(out.sync_all()?)
}

async fn each_part(
    server: &Images,
    source: &Source,
    size: u64,
    mut take: impl FnMut(u64, u32, &[(u32, Vec<u8>)]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut progress = Progress::new("exporting", size);
    let mut offset = 0;
    while offset < size {
        progress.show(offset);
        let length = u64::from(MAX_CONTENT_BYTES).min(size - offset) as u32;
        let Source { image, id, snapshot } = source;
        let ask = Ask::Read { image: image.clone(), id: *id, snapshot: snapshot.clone(), offset, length };
        let Told::Content(parts) = server.ask(ask).await? else { bail!("the server answered something else") };
        take(offset, length, &parts)?;
        offset += u64::from(length);
    }
    progress.show(size);
    Ok(())
}

/// Makes an image of a raw file. Parts of zeros take no space.
pub async fn import(server: &Images, file: &Path, name: &str, copies: Option<u8>) -> anyhow::Result<()> {
    let mut from = File::open(file).with_context(|| format!("opening {}", file.display()))?;
    let bytes = from.seek(SeekFrom::End(0))?;
    from.rewind()?;
    let size_bytes = bytes.next_multiple_of(SECTOR_BYTES).max(LEAST_IMAGE_BYTES);
    server.done(Ask::Create { name: name.to_owned(), size_bytes, copies, is_preallocated: false }).await?;
    let id = super::info(server, name.to_owned()).await?.id;
    let filled = fill(server, &mut from, bytes, (name, id)).await;
    if let Err(error) = filled {
        let removed = server.done(Ask::Remove { image: name.to_owned(), with_snapshots: false }).await;
        let rest = if removed.is_ok() { "what was imported is in the trash" } else { "a part of it was imported" };
        return Err(error.context(format!("importing {}; {rest}", file.display())));
    }
    Ok(tell!("made {name} of {}, {}", file.display(), human(size_bytes))?)
}

async fn fill(server: &Images, from: &mut File, bytes: u64, (name, id): (&str, u64)) -> anyhow::Result<()> {
    let mut progress = Progress::new("importing", bytes);
    let mut offset = 0;
    loop {
        offset = next_data(from, offset)?.unwrap_or(bytes);
        if offset >= bytes {
            break;
        }
        progress.show(offset);
        from.seek(SeekFrom::Start(offset))?;
        let length = u64::from(MAX_CONTENT_BYTES).min(bytes - offset);
        let mut content = vec![0; length as usize];
        from.read_exact(&mut content)?;
        content.resize(content.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        if content.iter().any(|byte| *byte != 0) {
            server.done(Ask::Write { image: name.to_owned(), id, offset, content }).await?;
        }
        offset += length;
    }
    progress.show(bytes);
    Ok(())
}

/// Where the next content of a file is that is no hole, at a sector; none: only a hole is left.
fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(found) => Ok(Some(found / SECTOR_BYTES * SECTOR_BYTES).map(|at| at.max(offset))),
        Err(Errno::NXIO) => Ok(None),
        // A file system that knows no holes: all of it is content.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(offset)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.raw");
        let mut file = File::create_new(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        file.seek(SeekFrom::Start(40 << 20)).unwrap();
        file.write_all(b"content").unwrap();
        let file = File::open(&path).unwrap();
        let found = next_data(&file, 0).unwrap().expect("there is content");
        assert!(found <= 40 << 20 && found.is_multiple_of(SECTOR_BYTES), "{found}");
        assert_eq!(next_data(&file, 50 << 20).unwrap().filter(|at| *at > 50 << 20), None);
    }
}
