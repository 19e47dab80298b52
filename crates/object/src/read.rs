//! Reading objects.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use engine::{Content, Found, ObjectInfo};
use format::attributes::Checksum;
use format::part_table::TablePart;

use crate::conditions::ReadConditions;
use crate::directory::Bucket;
use crate::error::ObjectError;
use crate::principal::{Action, Principal};
use crate::range::ByteRange;
use crate::read_ahead::ReadAhead;
use crate::service::{ObjectService, object_key};
use crate::stream::ChunkStream;

/// What of an object to read, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    pub conditions: ReadConditions,
    pub select: Select,
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    #[default]
    All,
    Range(ByteRange),
    /// The n-th part, from 1. An object that was not made by parts is its own first part.
    Part(u16),
}

/// An object, or a piece of it.
#[derive(Debug)]
pub struct Read {
    pub info: ObjectInfo,
    /// The bytes of the object that are read; all of them for [`Select::All`].
    pub range: Range<u64>,
    /// Number of parts, where a part was selected of an object that has parts.
    pub parts: Option<u16>,
    /// Of the bytes that are read: the object's, or the selected part's; a range has none.
    pub checksum: Option<Checksum>,
    pub body: ReadBody,
}

/// The bytes that were selected.
#[derive(Debug)]
pub enum ReadBody {
    Whole(Bytes),
    Stream(ChunkStream),
}

/// An object without its bytes.
#[derive(Clone, Debug)]
pub struct Head {
    pub info: ObjectInfo,
    pub range: Range<u64>,
    pub parts: Option<u16>,
    pub checksum: Option<Checksum>,
}

impl ObjectService {
    /// Reads an object if that is possible on the spot; otherwise the caller uses [`ObjectService::get`].
    pub fn get_cached(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: &ReadRequest,
    ) -> Option<Result<Read, ObjectError>> {
        if matches!(request.select, Select::Part(_)) {
            return None;
        }
        self.try_get_cached(principal, bucket, key, request).transpose()
    }

    fn try_get_cached(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: &ReadRequest,
    ) -> Result<Option<Read>, ObjectError> {
        let bucket = self.bucket(principal, Action::GetObject, bucket)?;
        let key = object_key(&bucket, key)?;
        match self.engine(&bucket)?.open_cached(&key) {
            None => Ok(None),
            Some(Ok(found)) => self.read_found(found, request).map(Some),
            Some(Err(error)) => Err(hide_absence(&bucket, principal, error.into())),
        }
    }

    /// Reads an object.
    pub async fn get(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: &ReadRequest,
    ) -> Result<Read, ObjectError> {
        let bucket = self.bucket(principal, Action::GetObject, bucket)?;
        let found = self.open(&bucket, principal, key).await?;
        match request.select {
            Select::Part(number) => self.read_part(found, &request.conditions, number),
            Select::All | Select::Range(_) => self.read_found(found, request),
        }
    }

    /// What [`ObjectService::get`] would say of an object, without its bytes.
    pub async fn head(
        &self,
        principal: &Principal,
        bucket: &str,
        key: &str,
        request: &ReadRequest,
    ) -> Result<Head, ObjectError> {
        let bucket = self.bucket(principal, Action::GetObject, bucket)?;
        if let Select::Part(number) = request.select {
            let found = self.open(&bucket, principal, key).await?;
            let Read { info, range, parts, checksum, .. } = self.read_part(found, &request.conditions, number)?;
            return Ok(Head { info, range, parts, checksum });
        }
        let key = object_key(&bucket, key)?;
        let info = self.engine(&bucket)?.info(&key).await;
        let info = info.map_err(|error| hide_absence(&bucket, principal, error.into()))?;
        request.conditions.check_read(&info)?;
        let range = selected(&request.select, info.length)?;
        Ok(Head { range, parts: None, checksum: checksum_of(&info, &request.select), info })
    }

    pub(crate) async fn open(&self, bucket: &Bucket, principal: &Principal, key: &str) -> Result<Found, ObjectError> {
        let key = object_key(bucket, key)?;
        let found = self.engine(bucket)?.open(&key).await;
        found.map_err(|error| hide_absence(bucket, principal, error.into()))
    }

    fn read_found(&self, found: Found, request: &ReadRequest) -> Result<Read, ObjectError> {
        let Found { info, content } = found;
        request.conditions.check_read(&info)?;
        let range = selected(&request.select, info.length)?;
        let checksum = checksum_of(&info, &request.select);
        Ok(Read { body: body_of(content, range.clone(), &self.read_ahead), info, range, parts: None, checksum })
    }

    fn read_part(&self, found: Found, conditions: &ReadConditions, number: u16) -> Result<Read, ObjectError> {
        let Found { info, content } = found;
        conditions.check_read(&info)?;
        let table = match &content {
            Content::Chunked(reader) => reader.parts(),
            Content::Whole(_) => None,
        };
        let (part, parts) = match table {
            Some(table) => (table.get(number), Some(table.count())),
            None => {
                let itself = TablePart { range: 0..info.length, checksum: info.attributes.checksum };
                (Some(itself).filter(|_| number == 1), None)
            }
        };
        let TablePart { range, checksum } = part.ok_or(ObjectError::NoSuchPart { number })?;
        Ok(Read { body: body_of(content, range.clone(), &self.read_ahead), info, range, parts, checksum })
    }
}

/// Who may not list a bucket does not learn which keys it lacks (S3: GetObject needs ListBucket to answer 404).
fn hide_absence(bucket: &Bucket, principal: &Principal, error: ObjectError) -> ObjectError {
    match error {
        ObjectError::NoSuchKey if bucket.authorize(principal, Action::ListBucket).is_err() => ObjectError::AccessDenied,
        error => error,
    }
}

fn checksum_of(info: &ObjectInfo, select: &Select) -> Option<Checksum> {
    info.attributes.checksum.filter(|_| *select == Select::All)
}

fn selected(select: &Select, length: u64) -> Result<Range<u64>, ObjectError> {
    match select {
        Select::Range(range) => range.resolve(length),
        Select::All | Select::Part(_) => Ok(0..length),
    }
}

pub(crate) fn body_of(content: Content, range: Range<u64>, ahead: &ReadAhead) -> ReadBody {
    match content {
        Content::Whole(bytes) => ReadBody::Whole(bytes.slice(range.start as usize..range.end as usize)),
        Content::Chunked(reader) => ReadBody::Stream(ChunkStream::new(Arc::from(reader), range, ahead)),
    }
}
