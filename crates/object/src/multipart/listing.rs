//! Listing parts and open uploads.

use bytes::Bytes;
use engine::{ListedUpload, PartInfo, UploadQuery};
use format::attributes::Attributes;
use types::UploadId;

use super::UploadName;
use crate::error::ObjectError;
use crate::list::MAX_LIST_ITEMS;
use crate::principal::{Action, Principal};
use crate::service::ObjectService;

/// One page of an upload's parts.
#[derive(Clone, Debug)]
pub struct PartsPage {
    pub parts: Vec<PartInfo>,
    pub truncated: bool,
    /// Of the object to come, with the checksum that it will carry.
    pub attributes: Attributes,
}

/// One page's question about a bucket's open uploads.
#[derive(Clone, Debug, Default)]
pub struct ListUploadsRequest {
    pub prefix: String,
    /// Empty for none.
    pub delimiter: String,
    /// S3's `key-marker` and `upload-id-marker`, or the [`UploadsPage::next`] of the page before.
    pub after: Option<UploadMark>,
    /// Uploads and prefixes together; more than [`MAX_LIST_ITEMS`] means that many.
    pub max_items: usize,
}

/// A place in the list of uploads: after this upload, or after all uploads of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadMark {
    pub key: String,
    pub upload: Option<UploadId>,
}

/// One page of open uploads, in order of (key, upload id).
#[derive(Clone, Debug)]
pub struct UploadsPage {
    pub uploads: Vec<ListedUpload>,
    pub prefixes: Vec<Bytes>,
    /// Where the next page starts; none on the last page.
    pub next: Option<UploadMark>,
}

impl ObjectService {
    /// Parts with numbers above `after`, ascending, at most [`MAX_LIST_ITEMS`].
    pub async fn list_parts(
        &self,
        principal: &Principal,
        name: UploadName<'_>,
        after: u16,
        max_parts: usize,
    ) -> Result<PartsPage, ObjectError> {
        let (bucket, upload) = self.upload(principal, Action::ListMultipartUploadParts, name)?;
        let engine = self.engine(&bucket)?;
        let attributes = engine.upload(&upload).await?;
        let max_parts = max_parts.min(MAX_LIST_ITEMS);
        // One more than asked for tells whether there is more.
        let mut parts = engine.parts(&upload, after, max_parts + 1).await?;
        let truncated = max_parts > 0 && parts.len() > max_parts;
        parts.truncate(max_parts);
        Ok(PartsPage { parts, truncated, attributes })
    }

    /// One page of a bucket's open uploads.
    pub async fn list_uploads(
        &self,
        principal: &Principal,
        bucket: &str,
        request: &ListUploadsRequest,
    ) -> Result<UploadsPage, ObjectError> {
        let bucket = self.bucket(principal, Action::ListBucketMultipartUploads, bucket)?;
        let engine = self.engine(&bucket)?;
        if request.max_items == 0 {
            return Ok(UploadsPage { uploads: Vec::new(), prefixes: Vec::new(), next: None });
        }
        let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let query = UploadQuery {
            bucket: bucket.id(),
            prefix: copy(&request.prefix),
            after: request.after.as_ref().map(|mark| (copy(&mark.key), mark.upload)),
            delimiter: copy(&request.delimiter),
            max_items: request.max_items.min(MAX_LIST_ITEMS),
        };
        let page = engine.uploads(&query).await?;
        let next = if page.truncated { last_of(&page.uploads, &page.prefixes) } else { None };
        Ok(UploadsPage { uploads: page.uploads, prefixes: page.prefixes, next })
    }
}

/// The later of the last upload and the last prefix. They never have the same name: such an upload's key would roll up too.
fn last_of(uploads: &[ListedUpload], prefixes: &[Bytes]) -> Option<UploadMark> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    match (uploads.last(), prefixes.last()) {
        (Some(upload), prefix) if prefix.is_none_or(|prefix| *prefix < upload.key) => {
            Some(UploadMark { key: text(&upload.key), upload: Some(upload.upload) })
        }
        (_, Some(prefix)) => Some(UploadMark { key: text(prefix), upload: None }),
        (_, None) => None,
    }
}
