//! Every object below a prefix, into a folder. Keys are any text, and a file system can't hold them all: what it can't hold is named and left out,
//! and the others are fetched.

use super::{fetch, safe_path};
use crate::client::{Listed, S3, S3Error};
use crate::commands::object::TRANSFERS_AT_ONCE;
use crate::commands::place::ObjectPlace;
use crate::commands::size::human;
use anyhow::{Context, bail};
use bench::{complain, tell};
use futures_util::{StreamExt, stream};
use rustix::io::Errno;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Fetches them. Fails at its end if something was left out.
pub async fn folder(s3: &S3, source: &str, target: Option<&Path>) -> anyhow::Result<()> {
    let place = ObjectPlace::any(source)?;
    let prefix = if place.key.is_empty() || place.key.ends_with('/') { place.key.clone() } else { format!("{}/", place.key) };
    let folder = target.context("--recursive needs a folder to write into")?;
    let (mut files, mut tally, mut next) = (Files::default(), Tally::default(), None);
    loop {
        let page = s3.list(&place.bucket, &prefix, "", next.as_deref()).await?;
        let mut wanted = Vec::new();
        for object in page.objects {
            match files.place_of(&object, &prefix) {
                Ok(Some(path)) => wanted.push((object.key, folder.join(path))),
                Ok(None) => {}
                Err(error) => tally.leave_out(&object.key, &error),
            }
        }
        fetch_all(s3, &place.bucket, wanted, &mut tally).await?;
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    tell!("got {} objects into {} ({})", tally.fetched, folder.display(), human(tally.bytes))?;
    if tally.left_out > 0 {
        bail!("{} objects were left out: each is named above, with the reason", tally.left_out);
    }
    Ok(())
}

/// Fetches these keys to these paths. What goes wrong with one of them keeps the others only if it would go wrong with them too.
async fn fetch_all(s3: &S3, bucket: &str, wanted: Vec<(String, PathBuf)>, tally: &mut Tally) -> anyhow::Result<()> {
    let (mut failure, is_over) = (None, Cell::new(false));
    let fetches = wanted.into_iter().map(|(key, path)| {
        let is_over = &is_over;
        async move {
            let fetched = if is_over.get() { None } else { Some(fetch(s3, bucket, &key, &path).await) };
            (key, fetched)
        }
    });
    let mut fetching = stream::iter(fetches).buffer_unordered(TRANSFERS_AT_ONCE);
    // Those under way are waited for, also after a failure: dropped, they would leave their unfinished files.
    while let Some((key, fetched)) = fetching.next().await {
        match fetched {
            None => {}
            Some(Ok(length)) => tally.take(length),
            Some(Err(error)) if is_of_one(&error) => tally.leave_out(&key, &error),
            Some(Err(error)) => {
                is_over.set(true);
                failure.get_or_insert_with(|| error.context(key));
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

/// What was fetched, and what was not.
#[derive(Default)]
struct Tally {
    fetched: u64,
    bytes: u64,
    left_out: u64,
}

impl Tally {
    fn take(&mut self, length: u64) {
        self.fetched += 1;
        self.bytes += length;
    }

    fn leave_out(&mut self, key: &str, why: &anyhow::Error) {
        complain!("trilith: {key} is left out: {why:#}");
        self.left_out += 1;
    }
}

/// The keys that are files, of those that the present key begins with. A list is in the keys' order, so each of them is listed before the
/// present key, and none is needed any more once a key comes that does not begin with it.
#[derive(Default)]
struct Files {
    above: Vec<String>,
}

impl Files {
    /// Where an object goes below the folder; nowhere if it is a sign for a folder. Objects come in the order of a list.
    fn place_of(&mut self, object: &Listed, prefix: &str) -> anyhow::Result<Option<PathBuf>> {
        let key = object.key.as_str();
        if key.ends_with('/') && object.length == 0 {
            return Ok(None);
        }
        let path = safe_path(key.strip_prefix(prefix).unwrap_or(key))?;
        self.above.retain(|file| key.starts_with(file.as_str()));
        if let Some(file) = self.above.iter().find(|file| key.as_bytes().get(file.len()) == Some(&b'/')) {
            bail!("the object {file} is a file where this one needs a folder");
        }
        self.above.push(key.to_owned());
        Ok(Some(path))
    }
}

/// Whether others may be fetched though this one was not: the server has refused it, or its path can't be written.
fn is_of_one(error: &anyhow::Error) -> bool {
    let of_path = |error: &io::Error| {
        let kinds = [
            ErrorKind::AlreadyExists,
            ErrorKind::DirectoryNotEmpty,
            ErrorKind::FileTooLarge,
            ErrorKind::InvalidFilename,
            ErrorKind::InvalidInput,
            ErrorKind::IsADirectory,
            ErrorKind::NotADirectory,
            ErrorKind::NotFound,
            ErrorKind::PermissionDenied,
            ErrorKind::ResourceBusy,
        ];
        kinds.contains(&error.kind()) || Errno::from_io_error(error) == Some(Errno::ILSEQ)
    };
    error.is::<S3Error>() || error.downcast_ref().is_some_and(of_path)
}

#[cfg(test)]
mod tests;
