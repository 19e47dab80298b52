//! What is known of an object without its bytes, its parts included.

use engine::{Content, Found, ObjectInfo};
use format::part_table::TablePart;

use crate::error::ObjectError;
use crate::list::MAX_LIST_ITEMS;
use crate::principal::{Action, Principal};
use crate::read::ReadRequest;
use crate::service::ObjectService;

/// Which parts of an object to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartsQuery {
    /// Only parts with higher numbers.
    pub after: u16,
    /// More than [`MAX_LIST_ITEMS`] means that many.
    pub max_parts: usize,
}

/// An object as its attributes describe it.
#[derive(Clone, Debug)]
pub struct Described {
    pub info: ObjectInfo,
    /// One page, where it was asked for and the object was made by parts.
    pub parts: Option<ObjectParts>,
}

/// One page of an object's parts. They are numbered from 1 without gaps, whatever numbers the upload gave them.
#[derive(Clone, Debug)]
pub struct ObjectParts {
    /// Of the whole object.
    pub count: u16,
    /// With their numbers, ascending.
    pub parts: Vec<(u16, TablePart)>,
    pub truncated: bool,
}

impl ObjectService {
    /// What there is to know of an object.
    pub async fn describe(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        parts: Option<PartsQuery>,
    ) -> Result<Described, ObjectError> {
        let Some(query) = parts else {
            let head = self.head(principal, bucket, key, &ReadRequest::default()).await?;
            return Ok(Described { info: head.info, parts: None });
        };
        let bucket = self.bucket(principal, Action::GetObject, bucket)?;
        let Found { info, content } = self.open(&bucket, principal, key).await?;
        let table = match &content {
            Content::Chunked(reader) => reader.parts(),
            Content::Whole(_) => None,
        };
        let parts = table.map(|table| {
            let max_parts = query.max_parts.min(MAX_LIST_ITEMS);
            let numbers = query.after.saturating_add(1)..=table.count();
            let parts: Vec<(u16, TablePart)> =
                numbers.take(max_parts).filter_map(|number| Some((number, table.get(number)?))).collect();
            let last = parts.last().map_or(query.after, |(number, _)| *number);
            ObjectParts { count: table.count(), truncated: max_parts > 0 && last < table.count(), parts }
        });
        Ok(Described { info, parts })
    }
}
