//! What a request carries. Its hash is signed, so a file that changes while it is sent is refused by the server and nothing
//! half new is stored. Of a file that goes in parts, whoever sends them looks that it is the same in the end.

use super::http::Body;
use anyhow::Context;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use sha2::{Digest, Sha256};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

/// Bytes of one read of a file.
const READ_BYTES: usize = 256 * 1024;

/// The body of a request.
#[derive(Clone)]
pub enum Content {
    Empty,
    Memory(Bytes),
    /// A part of a file.
    File {
        path: Arc<PathBuf>,
        offset: u64,
        length: u64,
    },
}

impl Content {
    pub fn length(&self) -> u64 {
        match self {
            Content::Empty => 0,
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File { length, .. } => *length,
        }
    }

    /// The hash that the signature covers, in hexadecimal.
    pub async fn sha256(&self) -> anyhow::Result<String> {
        let digest = match self {
            Content::Empty => Sha256::digest(b""),
            Content::Memory(bytes) => Sha256::digest(bytes),
            Content::File { path, offset, length } => {
                let (path, offset, length) = (path.clone(), *offset, *length);
                let hashed = tokio::task::spawn_blocking(move || hash_file(&path, offset, length));
                hashed.await.context("hashing a file")?.with_context(|| format!("reading {}", self.name()))?
            }
        };
        Ok(hex::encode(digest))
    }

    /// The bytes, on their way.
    pub fn body(&self) -> Body {
        match self {
            Content::Empty => Empty::new().map_err(|never| match never {}).boxed_unsync(),
            Content::Memory(bytes) => Full::new(bytes.clone()).map_err(|never| match never {}).boxed_unsync(),
            Content::File { path, offset, length } => {
                let start = Reading::Waiting { path: path.clone(), offset: *offset, left: *length };
                StreamBody::new(stream::try_unfold(start, next_piece)).boxed_unsync()
            }
        }
    }

    fn name(&self) -> String {
        match self {
            Content::File { path, .. } => path.display().to_string(),
            Content::Empty | Content::Memory(_) => "memory".to_owned(),
        }
    }
}

/// How far a file has been sent.
enum Reading {
    Waiting { path: Arc<PathBuf>, offset: u64, left: u64 },
    Open { file: tokio::fs::File, left: u64 },
}

async fn next_piece(reading: Reading) -> io::Result<Option<(Frame<Bytes>, Reading)>> {
    let (mut file, left) = match reading {
        Reading::Open { file, left } => (file, left),
        Reading::Waiting { path, offset, left } => {
            let mut file = tokio::fs::File::open(&*path).await?;
            file.seek(SeekFrom::Start(offset)).await?;
            (file, left)
        }
    };
    if left == 0 {
        return Ok(None);
    }
    let mut piece = vec![0; READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES))];
    let count = file.read(&mut piece).await?;
    if count == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was sent"));
    }
    piece.truncate(count);
    Ok(Some((Frame::data(Bytes::from(piece)), Reading::Open { file, left: left - count as u64 })))
}

fn hash_file(path: &Path, offset: u64, length: u64) -> io::Result<sha2::digest::Output<Sha256>> {
    let mut file = std::fs::File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let (mut hash, mut left, mut buffer) = (Sha256::new(), length, vec![0; READ_BYTES]);
    while left > 0 {
        let most = READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES));
        match file.read(&mut buffer[..most])? {
            0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")),
            count => {
                hash.update(&buffer[..count]);
                left -= count as u64;
            }
        }
    }
    Ok(hash.finalize())
}
