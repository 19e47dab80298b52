//! Files into objects.

use super::TRANSFERS_AT_ONCE;
use crate::client::S3;
use crate::commands::place::ObjectPlace;
use crate::commands::size::human;
use anyhow::{Context, bail};
use bench::{complain, tell};
use futures_util::{StreamExt, TryStreamExt, stream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// One file, or standard input.
pub async fn one(s3: &S3, source: &Path, target: &str, headers: &[(&str, String)]) -> anyhow::Result<()> {
    let mut place = ObjectPlace::any(target)?;
    let is_input = source == Path::new("-");
    if place.key.is_empty() || place.key.ends_with('/') {
        if is_input {
            bail!("standard input has no name: write BUCKET/KEY");
        }
        place.key.push_str(file_name(source)?);
    }
    let length = if is_input {
        let input = tokio::fs::File::from_std(std::io::stdin().as_fd().try_clone_to_owned()?.into());
        s3.put_stream(input, &place.bucket, &place.key, headers).await?
    } else {
        if source.is_dir() {
            bail!("{} is a folder: --recursive stores all files below it", source.display());
        }
        s3.put_file(source, &place.bucket, &place.key, headers).await?
    };
    tell!("put {place} ({})", human(length))?;
    Ok(())
}

/// Every file below a folder.
pub async fn folder(s3: &S3, source: &Path, target: &str, headers: &[(&str, String)]) -> anyhow::Result<()> {
    let place = ObjectPlace::any(target)?;
    let prefix = if place.key.is_empty() || place.key.ends_with('/') { place.key.clone() } else { format!("{}/", place.key) };
    let mut files = Vec::new();
    find_files(source, &prefix, &mut files)?;
    let count = files.len();
    let puts = files.into_iter().map(|(path, key)| {
        let bucket = &place.bucket;
        async move { s3.put_file(&path, bucket, &key, headers).await.with_context(|| format!("storing {}", path.display())) }
    });
    let add = async |sum: u64, length: u64| Ok(sum + length);
    let bytes = stream::iter(puts).buffer_unordered(TRANSFERS_AT_ONCE).try_fold(0, add).await?;
    tell!("put {count} objects below {}/{prefix} ({})", place.bucket, human(bytes))?;
    Ok(())
}

/// Files below `folder`, each with its key. Symbolic links are not followed: a circle of them has no end.
fn find_files(folder: &Path, prefix: &str, found: &mut Vec<(PathBuf, String)>) -> anyhow::Result<()> {
    let mut folders = vec![(folder.to_owned(), prefix.to_owned())];
    while let Some((folder, prefix)) = folders.pop() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("reading the folder {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let key = format!("{prefix}{}", file_name(&path)?);
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push((path, format!("{key}/")));
            } else if kind.is_file() {
                found.push((path, key));
            } else {
                complain!("trilith: {} is neither a file nor a folder and is left out", path.display());
            }
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> anyhow::Result<&str> {
    let name = path.file_name().with_context(|| format!("{} has no file name", path.display()))?;
    name.to_str().with_context(|| format!("{}: keys are UTF-8, this name is not", path.display()))
}
