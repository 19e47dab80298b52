//! Objects into files.

mod below;

use crate::client::{Answer, Call, S3};
use crate::commands::place::ObjectPlace;
use crate::commands::size::human;
use crate::new_file::folder_of;
use anyhow::{Context, bail};
pub use below::folder;
use bench::{output, tell};
use hyper::Method;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// One object, into a file or to standard output.
pub async fn one(s3: &S3, source: &str, target: Option<&Path>) -> anyhow::Result<()> {
    let place = ObjectPlace::object(source)?;
    if target == Some(Path::new("-")) {
        let mut answer = s3.call(Call::new(Method::GET, &place.bucket, &place.key)).await?;
        while let Some(piece) = answer.piece().await? {
            output::bytes(&piece)?;
        }
        return Ok(());
    }
    let path = match target {
        Some(path) if path.is_dir() => path.join(safe_path(place.name())?),
        Some(path) => path.to_owned(),
        None => safe_path(place.name())?,
    };
    let length = fetch(s3, &place.bucket, &place.key, &path).await?;
    tell!("got {} ({})", path.display(), human(length))?;
    Ok(())
}

/// Fetches an object into a file, which appears only when it is whole and durable. A disk or a pipe is written to as it stands.
async fn fetch(s3: &S3, bucket: &str, key: &str, path: &Path) -> anyhow::Result<u64> {
    let mut answer = s3.call(Call::new(Method::GET, bucket, key)).await?;
    let folder = folder_of(path);
    let made = tokio::fs::create_dir_all(folder).await;
    made.with_context(|| format!("making the folder {}: is there an object of that name?", folder.display()))?;
    let written = match meant(path).await? {
        Meant::File(path) => replace(s3, &mut answer, &path).await,
        Meant::Other(path) => overwrite(&mut answer, &path).await,
    };
    written.with_context(|| format!("writing {}", path.display()))
}

/// What a path names.
enum Meant {
    /// A file, or nothing yet.
    File(PathBuf),
    /// Something that must stay what it is.
    Other(PathBuf),
}

/// Where a symbolic link leads is meant, not the link.
async fn meant(path: &Path) -> anyhow::Result<Meant> {
    let found = match tokio::fs::symlink_metadata(path).await {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Meant::File(path.to_owned())),
        Err(error) => return Err(error).with_context(|| format!("looking at {}", path.display())),
    };
    if !found.is_symlink() {
        return Ok(if found.is_file() { Meant::File(path.to_owned()) } else { Meant::Other(path.to_owned()) });
    }
    let lost = || format!("{} is a symbolic link that leads to nothing", path.display());
    let target = tokio::fs::canonicalize(path).await.with_context(lost)?;
    let is_file = tokio::fs::metadata(&target).await.with_context(lost)?.is_file();
    Ok(if is_file { Meant::File(target) } else { Meant::Other(target) })
}

/// Puts a new file in the place of what may be there.
async fn replace(s3: &S3, answer: &mut Answer<'_>, path: &Path) -> anyhow::Result<u64> {
    // Keys of objects become names of files: nobody has one of this name.
    let mut random = [0; 8];
    s3.env().fill_random(&mut random);
    let folder = folder_of(path);
    let partial = folder.join(format!(".trilith-part-{}", hex::encode(random)));
    let written = async {
        let mut file = tokio::fs::File::create_new(&partial).await?;
        let length = pour(answer, &mut file).await?;
        file.sync_all().await?;
        tokio::fs::rename(&partial, path).await?;
        tokio::fs::File::open(folder).await?.sync_all().await?;
        anyhow::Ok(length)
    };
    let written = written.await;
    if written.is_err() {
        // It may not have been made at all, or have its name already.
        drop(tokio::fs::remove_file(&partial).await);
    }
    written
}

async fn overwrite(answer: &mut Answer<'_>, path: &Path) -> anyhow::Result<u64> {
    let mut file = tokio::fs::OpenOptions::new().write(true).open(path).await?;
    let length = pour(answer, &mut file).await?;
    // Of the others none keeps anything.
    if file.metadata().await?.file_type().is_block_device() {
        file.sync_all().await?;
    }
    Ok(length)
}

async fn pour(answer: &mut Answer<'_>, out: &mut (impl AsyncWrite + Unpin)) -> anyhow::Result<u64> {
    let mut length = 0;
    while let Some(piece) = answer.piece().await? {
        out.write_all(&piece).await?;
        length += piece.len() as u64;
    }
    out.flush().await?;
    Ok(length)
}

/// A key as a path that stays below the folder it is joined to: whoever wrote the key does not choose where we write.
fn safe_path(key: &str) -> anyhow::Result<PathBuf> {
    let mut path = PathBuf::new();
    for part in key.split('/') {
        if matches!(part, "" | "." | "..") || part.contains('\0') {
            bail!("the key `{key}` is no path below a folder: fetch it alone and name the file");
        }
        path.push(part);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::safe_path;

    #[test]
    fn keys_do_not_lead_out_of_the_folder() {
        assert_eq!(safe_path("a/b.txt").unwrap().to_str(), Some("a/b.txt"));
        for bad in ["../a", "a/../../b", "/etc/passwd", "a//b", "", ".", "a/./b", "a\0b"] {
            assert!(safe_path(bad).is_err(), "{bad}");
        }
    }
}
