//! Pages of names.

use super::xml::{element, elements};
use super::{Call, S3};
use ::http::Method;
use percent_encoding::percent_decode_str;

/// One page of a listing.
pub struct Page {
    pub objects: Vec<Listed>,
    /// With a delimiter: what names have in common up to it.
    pub prefixes: Vec<String>,
    /// Where the next page starts; none on the last.
    pub next: Option<String>,
}

/// One object of a listing.
pub struct Listed {
    pub key: String,
    pub length: u64,
    pub modified: String,
}

impl S3 {
    /// One page of the names that start with `prefix`. A delimiter folds names that go on after it.
    pub async fn list(&self, bucket: &str, prefix: &str, delimiter: &str, from: Option<&str>) -> anyhow::Result<Page> {
        // Names come percent-encoded: XML has no way to write some of the characters that keys may hold.
        let mut call = Call::new(Method::GET, bucket, "").query("list-type", "2").query("encoding-type", "url");
        call = call.query("prefix", prefix);
        if !delimiter.is_empty() {
            call = call.query("delimiter", delimiter);
        }
        if let Some(from) = from {
            call = call.query("continuation-token", from);
        }
        Ok(page_of(&self.call_for_text(call).await?))
    }
}

fn page_of(xml: &str) -> Page {
    let decoded = |text: String| percent_decode_str(&text).decode_utf8_lossy().into_owned();
    let object = |item: &str| {
        let key = decoded(element(item, "Key")?);
        let length = element(item, "Size")?.parse().ok()?;
        Some(Listed { key, length, modified: element(item, "LastModified").unwrap_or_default() })
    };
    let is_truncated = element(xml, "IsTruncated").as_deref() == Some("true");
    Page {
        objects: elements(xml, "Contents").filter_map(object).collect(),
        prefixes: elements(xml, "CommonPrefixes").filter_map(|item| element(item, "Prefix")).map(decoded).collect(),
        next: if is_truncated { element(xml, "NextContinuationToken") } else { None },
    }
}
