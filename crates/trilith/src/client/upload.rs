//! Storing content of any length: in one request, or in parts.

use super::content::Content;
use super::xml::element;
use super::{Call, S3};
use ::http::Method;
use anyhow::{Context, bail};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};
use types::limits::MAX_PARTS;

/// Content longer than this goes in parts of this size, larger ones if there were too many.
const PART_BYTES: u64 = 64 << 20;
/// Parts of a file on their way at once.
const PARTS_AT_ONCE: usize = 4;
const MIB: u64 = 1 << 20;

impl S3 {
    /// Stores a file, or what a disk or a pipe of that name gives.
    pub async fn put_file(&self, path: &Path, bucket: &str, key: &str, headers: &[(&str, String)]) -> anyhow::Result<u64> {
        let reading = || format!("reading {}", path.display());
        let found = tokio::fs::metadata(path).await.with_context(reading)?;
        // A disk has no length, nor have files that the system composes when they are read. Of an empty file the end comes
        // at once.
        if !found.is_file() || found.len() == 0 {
            let input = tokio::fs::File::open(path).await.with_context(reading)?;
            return self.put_stream(input, bucket, key, headers).await;
        }
        let (length, before) = (found.len(), Look::of(&found));
        let path = Arc::new(path.to_owned());
        let content = |offset, length| Content::File { path: path.clone(), offset, length };
        if length <= PART_BYTES {
            self.put(bucket, key, headers, content(0, length)).await?;
            return Ok(length);
        }
        let part_bytes = part_bytes(length);
        let upload = Upload::begin(self, bucket, key, headers).await?;
        let starts = (0..length.div_ceil(part_bytes)).map(|index| index * part_bytes);
        let sends = starts.zip(1..).map(|(start, number)| upload.part(number, content(start, part_bytes.min(length - start))));
        let sent = async {
            let tags: Vec<String> = stream::iter(sends).buffered(PARTS_AT_ONCE).try_collect().await?;
            match tokio::fs::metadata(&*path).await.is_ok_and(|found| Look::of(&found) == before) {
                true => Ok(tags),
                false => bail!("{} has changed while it was sent", path.display()),
            }
        };
        let sent = sent.await;
        upload.end(sent).await?;
        Ok(length)
    }

    /// Stores what a stream gives, whose length nobody knows.
    pub async fn put_stream(
        &self,
        mut input: impl AsyncRead + Unpin,
        bucket: &str,
        key: &str,
        headers: &[(&str, String)],
    ) -> anyhow::Result<u64> {
        let first = read_part(&mut input).await?;
        let mut length = first.len() as u64;
        if length < PART_BYTES {
            self.put(bucket, key, headers, Content::Memory(first)).await?;
            return Ok(length);
        }
        let upload = Upload::begin(self, bucket, key, headers).await?;
        let sent = async {
            let mut tags = vec![upload.part(1, Content::Memory(first)).await?];
            loop {
                let piece = read_part(&mut input).await?;
                if piece.is_empty() {
                    return Ok(tags);
                }
                if tags.len() == usize::from(MAX_PARTS) {
                    bail!("more than {MAX_PARTS} parts of {PART_BYTES} bytes: put it into a file first");
                }
                length += piece.len() as u64;
                tags.push(upload.part(tags.len() as u32 + 1, Content::Memory(piece)).await?);
            }
        };
        let sent = sent.await;
        upload.end(sent).await?;
        Ok(length)
    }

    async fn put(&self, bucket: &str, key: &str, headers: &[(&str, String)], content: Content) -> anyhow::Result<()> {
        let call = Call { headers: headers.to_vec(), ..Call::new(Method::PUT, bucket, key).content(content) };
        self.call(call).await?.finish().await
    }
}

/// By what a file is known that somebody has written to, or put another one in the place of. The hash of a request covers one
/// part only.
#[derive(PartialEq, Eq)]
struct Look {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
}

impl Look {
    fn of(found: &Metadata) -> Look {
        Look { file: (found.dev(), found.ino()), length: found.len(), modified: (found.mtime(), found.mtime_nsec()) }
    }
}

/// A multipart upload.
struct Upload<'a> {
    s3: &'a S3,
    bucket: &'a str,
    key: &'a str,
    id: String,
}

impl<'a> Upload<'a> {
    async fn begin(s3: &'a S3, bucket: &'a str, key: &'a str, headers: &[(&str, String)]) -> anyhow::Result<Upload<'a>> {
        let call = Call { headers: headers.to_vec(), ..Call::new(Method::POST, bucket, key).query("uploads", "") };
        let xml = s3.call_for_text(call).await?;
        let id = element(&xml, "UploadId").context("the server began an upload without naming it")?;
        Ok(Upload { s3, bucket, key, id })
    }

    async fn part(&self, number: u32, content: Content) -> anyhow::Result<String> {
        let call = Call::new(Method::PUT, self.bucket, self.key).query("partNumber", number.to_string());
        let answer = self.s3.call(call.query("uploadId", self.id.as_str()).content(content)).await?;
        let tag = answer.header("etag").context("the server took a part without giving its tag")?.to_owned();
        answer.finish().await?;
        Ok(tag)
    }

    /// Completes the upload, or gives it up if a part failed.
    async fn end(&self, sent: anyhow::Result<Vec<String>>) -> anyhow::Result<()> {
        let tags = match sent {
            Ok(tags) => tags,
            Err(error) => {
                let abort = Call::new(Method::DELETE, self.bucket, self.key).query("uploadId", self.id.as_str());
                return match self.s3.call(abort).await {
                    Ok(_) => Err(error),
                    Err(_) => Err(error.context(format!("upload {} is left over and could not be given up", self.id))),
                };
            }
        };
        let mut xml = String::from("<CompleteMultipartUpload>");
        for (tag, number) in tags.iter().zip(1..) {
            let tag = tag.replace('"', "&quot;");
            xml.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        }
        xml.push_str("</CompleteMultipartUpload>");
        let call = Call::new(Method::POST, self.bucket, self.key).query("uploadId", self.id.as_str());
        self.s3.call_for_text(call.content(Content::Memory(Bytes::from(xml)))).await.map(drop)
    }
}

/// The size of all parts but the last.
fn part_bytes(length: u64) -> u64 {
    PART_BYTES.max(length.div_ceil(u64::from(MAX_PARTS)).next_multiple_of(MIB))
}

/// Up to one part of a stream; less only at its end.
async fn read_part(input: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<Bytes> {
    let mut part = Vec::new();
    input.take(PART_BYTES).read_to_end(&mut part).await.context("reading the input")?;
    Ok(Bytes::from(part))
}

#[cfg(test)]
mod tests;
