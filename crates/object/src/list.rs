//! Listing the objects of a bucket, in pages. Both versions of S3's request come down to this.

use bytes::Bytes;
use engine::{ListItem, ListQuery};

use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::service::ObjectService;

/// Most items of a page (S3).
pub const MAX_LIST_ITEMS: usize = 1000;

/// One page's question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    pub prefix: String,
    /// Empty for none.
    pub delimiter: String,
    /// Only names and rolled-up prefixes after this: S3's `marker`, `start-after`, or the [`Listing::next`] of the page before.
    pub start_after: String,
    /// Objects and prefixes together; more than [`MAX_LIST_ITEMS`] means that many.
    pub max_items: usize,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// In byte order, objects and prefixes mixed. S3's KeyCount is their number.
    pub items: Vec<ListItem>,
    /// Where the next page starts: the last item's name. None on the last page.
    pub next: Option<Bytes>,
}

impl ObjectService {
    /// One page of a bucket's names.
    pub async fn list(&self, principal: &Principal, bucket: &str, request: &ListRequest) -> Result<Listing, ObjectError> {
        let bucket = self.bucket(principal, Action::ListBucket, bucket)?;
        let engine = self.engine(&bucket)?;
        if request.max_items == 0 {
            return Ok(Listing { items: Vec::new(), next: None });
        }
        let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let query = ListQuery {
            bucket: bucket.id(),
            prefix: copy(&request.prefix),
            start_after: copy(&request.start_after),
            delimiter: copy(&request.delimiter),
            max_items: request.max_items.min(MAX_LIST_ITEMS),
        };
        let page = engine.list(&query).await?;
        let last = page.items.last().filter(|_| page.truncated);
        let next = last.map(|item| match item {
            ListItem::Object(object) => object.key.clone(),
            ListItem::Prefix(prefix) => prefix.clone(),
        });
        Ok(Listing { items: page.items, next })
    }
}
