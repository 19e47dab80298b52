//! What a person stores with an object, and what the engine notes beside it: the TLV area that ends a record header
//! (RFD 2, decision 1).
//!
//! ```text
//! tag (1 byte) │ length (2 bytes) │ value … repeated to the end of the area
//! ```
//!
//! Invariants:
//! - A tag number never changes its meaning and is never used again ([`Tag`] is the frozen table).
//! - An unknown tag is no error: its bytes are kept and written back, so that an older program that copies a record loses
//!   nothing. A known tag with a malformed value is an error.
//! - Absent fields cost nothing; fields are written in the order of their tags, so equal attributes have equal bytes.
//! - Of a tag that stands once by nature, the last occurrence counts.

mod checksum;
mod etag;
mod policy;
mod tag;

use bytes::Bytes;
use types::limits::MAX_USER_METADATA_BYTES;
use types::{GatewayId, Order, Sequence, UploadId};
use zerocopy::IntoBytes;

use crate::decode::{DecodeError, Fault, Reader};
use crate::entry::Entry;
use crate::record::{MAX_ATTRIBUTES_BYTES, OrderLayout, WriteId};
use crate::version_id::VersionId;

pub use checksum::{Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType, MAX_CHECKSUM_BYTES};
pub use etag::{ETAG_BYTES, ETag, InvalidETag, MAX_ETAG_TEXT_BYTES};
pub use policy::{Retention, RetentionMode, StorageClass};
pub use tag::Tag;

/// Longest single value: lengths have two bytes.
pub const MAX_VALUE_BYTES: usize = u16::MAX as usize;

/// Most writes that one record lists as overlapped.
pub const MAX_OVERLAPPED: usize = 1024;

const _: () = assert!(MAX_USER_METADATA_BYTES + 2 <= MAX_VALUE_BYTES);
const _: () = assert!(MAX_ATTRIBUTES_BYTES < MAX_VALUE_BYTES, "what fits the area fits a value");
const _: () = assert!(MAX_OVERLAPPED * WRITE_ID_BYTES <= MAX_VALUE_BYTES);

const ATTRIBUTES: &str = "attributes";
const WRITE_ID_BYTES: usize = 10;
const TLV_HEAD_BYTES: usize = 3;

/// Everything that stands with an object beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub etag: ETag,
    /// Milliseconds since 1970.
    pub modified_ms: u64,
    pub content_type: Option<Bytes>,
    pub content_encoding: Option<Bytes>,
    pub content_disposition: Option<Bytes>,
    pub content_language: Option<Bytes>,
    pub cache_control: Option<Bytes>,
    /// The `Expires` header as it was given.
    pub expires: Option<Bytes>,
    pub website_redirect: Option<Bytes>,
    /// User metadata, names without `x-amz-meta-`, in the order given.
    pub metadata: Vec<(Bytes, Bytes)>,
    pub checksum: Option<Checksum>,
    pub storage_class: StorageClass,
    pub version_id: Option<VersionId>,
    /// Object tags, in the order given.
    pub tags: Vec<(Bytes, Bytes)>,
    pub retention: Option<Retention>,
    pub legal_hold: bool,
    pub sse_key_id: Option<Bytes>,
    pub sse_iv: Option<Bytes>,
    /// The upload from which the object was completed, or to which a part belongs.
    pub upload: Option<UploadId>,
    pub owner: Option<Bytes>,
    pub permissions: Option<Bytes>,
    /// In the tombstone of a completed upload: the order of the object that Complete made.
    pub expected: Option<Order>,
    /// Places of another write, made durable here before that one is acknowledged (RFD 3, "Rejected"). Nothing writes it today.
    pub piggyback: Option<Box<Entry>>,
    /// Writes of the same key that were outstanding at the same time (RFD 3, "Rejected"). At most [`MAX_OVERLAPPED`]. Nothing writes it today.
    pub overlapped: Vec<WriteId>,
    /// Number of parts, of an object that was made by parts.
    pub part_count: Option<u16>,
    /// The checksum that an open upload will carry.
    pub upload_checksum: Option<ChecksumScheme>,
    /// Tags that this version of the program does not know, with their values.
    pub unknown: Vec<(u8, Bytes)>,
}

/// Attributes that no record can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("headers, metadata and tags need {bytes} bytes, at most {MAX_ATTRIBUTES_BYTES} can be stored")]
pub struct AttributesTooLong {
    pub bytes: usize,
}

impl Attributes {
    /// What lists say of the checksum: the object's, or the one that an open upload will carry.
    pub fn checksum_scheme(&self) -> Option<ChecksumScheme> {
        self.checksum.as_ref().map(ChecksumScheme::of).or(self.upload_checksum)
    }

    /// Whether a record can hold them. What clients send must pass this before it is encoded.
    pub fn check_length(&self) -> Result<(), AttributesTooLong> {
        match self.encoded_len() {
            bytes if bytes > MAX_ATTRIBUTES_BYTES => Err(AttributesTooLong { bytes }),
            _ => Ok(()),
        }
    }

    /// Bytes that [`Attributes::encode_into`] appends.
    pub fn encoded_len(&self) -> usize {
        let mut length = Length(0);
        self.write(&mut length);
        length.0
    }

    /// Appends the encoding of attributes that [`Attributes::check_length`] has passed.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let before = out.len();
        self.write(out);
        assert!(out.len() - before <= MAX_VALUE_BYTES, "no value's length was cut to two bytes");
    }

    /// The encoding as a record header takes it.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut out);
        Bytes::from(out)
    }

    /// Reads an area that fills `area`; values stay slices of it.
    pub fn decode(area: Bytes) -> Result<Attributes, DecodeError> {
        let mut attributes = Attributes::default();
        let mut reader = Reader::new(ATTRIBUTES, &area);
        if area.len() > MAX_ATTRIBUTES_BYTES {
            let fault = Fault::OutOfRange { least: 0, most: MAX_ATTRIBUTES_BYTES as u64, found: area.len() as u64 };
            return Err(reader.error_at(0, "area", fault));
        }
        while reader.remaining() > 0 {
            let number = reader.u8("tag")?;
            let length = reader.u16("value length")? as usize;
            let start = reader.offset();
            reader.take(length, "value")?;
            let value = &area[..start + length];
            match Tag::from_number(number) {
                Some(tag) => attributes.read(tag, &area, Reader::starting_at(ATTRIBUTES, value, start))?,
                None => attributes.unknown.push((number, area.slice(start..start + length))),
            }
        }
        Ok(attributes)
    }

    fn write(&self, out: &mut impl Sink) {
        put(out, Tag::ETag, &[&self.etag.encode()]);
        put(out, Tag::ModifiedMs, &[&self.modified_ms.to_le_bytes()]);
        put_text(out, Tag::ContentType, &self.content_type);
        put_text(out, Tag::ContentEncoding, &self.content_encoding);
        put_text(out, Tag::ContentDisposition, &self.content_disposition);
        put_text(out, Tag::ContentLanguage, &self.content_language);
        put_text(out, Tag::CacheControl, &self.cache_control);
        put_text(out, Tag::Expires, &self.expires);
        put_text(out, Tag::WebsiteRedirect, &self.website_redirect);
        put_pairs(out, Tag::Metadata, &self.metadata);
        if let Some(checksum) = &self.checksum {
            put(out, Tag::Checksum, &[&checksum.head(), checksum.value()]);
        }
        if self.storage_class != StorageClass::default() {
            put(out, Tag::StorageClass, &[&[self.storage_class as u8]]);
        }
        if let Some(version) = &self.version_id {
            put(out, Tag::VersionId, &[&version.0]);
        }
        put_pairs(out, Tag::Tagging, &self.tags);
        if let Some(retention) = &self.retention {
            put(out, Tag::Retention, &[&retention.encode()]);
        }
        if self.legal_hold {
            put(out, Tag::LegalHold, &[]);
        }
        put_text(out, Tag::SseKeyId, &self.sse_key_id);
        put_text(out, Tag::SseIv, &self.sse_iv);
        self.write_engine_notes(out);
    }

    fn write_engine_notes(&self, out: &mut impl Sink) {
        if let Some(upload) = &self.upload {
            put(out, Tag::Upload, &[&upload.0]);
        }
        put_text(out, Tag::Owner, &self.owner);
        put_text(out, Tag::Permissions, &self.permissions);
        if let Some(expected) = self.expected {
            put(out, Tag::Expected, &[OrderLayout::new(expected).as_bytes()]);
        }
        if let Some(entry) = &self.piggyback {
            put(out, Tag::Piggyback, &[&entry.encode()]);
        }
        if !self.overlapped.is_empty() {
            assert!(self.overlapped.len() <= MAX_OVERLAPPED);
            head(out, Tag::Overlapped as u8, self.overlapped.len() * WRITE_ID_BYTES);
            for write in &self.overlapped {
                out.put(&write.gateway.0.to_le_bytes());
                out.put(&write.sequence.0.to_le_bytes());
            }
        }
        if let Some(parts) = self.part_count {
            put(out, Tag::PartCount, &[&parts.to_le_bytes()]);
        }
        if let Some(wanted) = &self.upload_checksum {
            put(out, Tag::UploadChecksum, &[&wanted.encode()]);
        }
        for (number, value) in &self.unknown {
            head(out, *number, value.len());
            out.put(value);
        }
    }

    /// Reads one value, which `reader` holds to its end. `area` is what the reader reads.
    fn read(&mut self, tag: Tag, area: &Bytes, mut reader: Reader<'_>) -> Result<(), DecodeError> {
        match tag {
            Tag::ETag => self.etag = ETag::decode(&mut reader)?,
            Tag::ModifiedMs => self.modified_ms = reader.u64("modified time")?,
            Tag::ContentType => self.content_type = Some(rest(area, &mut reader)?),
            Tag::ContentEncoding => self.content_encoding = Some(rest(area, &mut reader)?),
            Tag::ContentDisposition => self.content_disposition = Some(rest(area, &mut reader)?),
            Tag::ContentLanguage => self.content_language = Some(rest(area, &mut reader)?),
            Tag::CacheControl => self.cache_control = Some(rest(area, &mut reader)?),
            Tag::Expires => self.expires = Some(rest(area, &mut reader)?),
            Tag::WebsiteRedirect => self.website_redirect = Some(rest(area, &mut reader)?),
            Tag::Metadata => self.metadata.push(pair(area, &mut reader)?),
            Tag::Checksum => self.checksum = Some(Checksum::decode(&mut reader)?),
            Tag::StorageClass => self.storage_class = StorageClass::decode(&mut reader)?,
            Tag::VersionId => self.version_id = Some(VersionId(reader.array("version id")?)),
            Tag::Tagging => self.tags.push(pair(area, &mut reader)?),
            Tag::Retention => self.retention = Some(Retention::decode(&mut reader)?),
            Tag::LegalHold => self.legal_hold = true,
            Tag::SseKeyId => self.sse_key_id = Some(rest(area, &mut reader)?),
            Tag::SseIv => self.sse_iv = Some(rest(area, &mut reader)?),
            Tag::Upload => self.upload = Some(UploadId(reader.array("upload id")?)),
            Tag::Owner => self.owner = Some(rest(area, &mut reader)?),
            Tag::Permissions => self.permissions = Some(rest(area, &mut reader)?),
            Tag::Expected => self.expected = Some(reader.fixed::<OrderLayout>("expected version")?.get()),
            Tag::Piggyback => self.piggyback = Some(Box::new(Entry::read(&mut reader)?)),
            Tag::Overlapped => self.overlapped = overlapped(&mut reader)?,
            Tag::PartCount => self.part_count = Some(reader.u16("part count")?),
            Tag::UploadChecksum => self.upload_checksum = Some(ChecksumScheme::decode(&mut reader)?),
        }
        reader.finish()
    }
}

fn rest(area: &Bytes, reader: &mut Reader<'_>) -> Result<Bytes, DecodeError> {
    let start = reader.offset();
    let bytes = reader.take(reader.remaining(), "text")?.len();
    Ok(area.slice(start..start + bytes))
}

fn pair(area: &Bytes, reader: &mut Reader<'_>) -> Result<(Bytes, Bytes), DecodeError> {
    let name_bytes = reader.u16("name length")? as usize;
    let start = reader.offset();
    reader.take(name_bytes, "name")?;
    Ok((area.slice(start..start + name_bytes), rest(area, reader)?))
}

fn overlapped(reader: &mut Reader<'_>) -> Result<Vec<WriteId>, DecodeError> {
    let count = reader.remaining() / WRITE_ID_BYTES;
    if count > MAX_OVERLAPPED {
        let fault = Fault::OutOfRange { least: 0, most: MAX_OVERLAPPED as u64, found: count as u64 };
        return Err(reader.error_at(reader.offset(), "overlapped writes", fault));
    }
    let mut writes = Vec::with_capacity(count);
    while reader.remaining() > 0 {
        let gateway = GatewayId(reader.u16("overlapped gateway")?);
        writes.push(WriteId { gateway, sequence: Sequence(reader.u64("overlapped sequence")?) });
    }
    Ok(writes)
}

/// Where an encoding goes: bytes, or only their number, so that the length can't disagree with the encoding.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

struct Length(usize);

impl Sink for Length {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[inline]
fn head(out: &mut impl Sink, number: u8, length: usize) {
    // A length that does not fit is noticed at the end of the encoding, by its sum.
    let [low, high] = (length as u16).to_le_bytes();
    let head: [u8; TLV_HEAD_BYTES] = [number, low, high];
    out.put(&head);
}

#[inline]
fn put(out: &mut impl Sink, tag: Tag, pieces: &[&[u8]]) {
    head(out, tag as u8, pieces.iter().map(|piece| piece.len()).sum());
    for piece in pieces {
        out.put(piece);
    }
}

#[inline]
fn put_text(out: &mut impl Sink, tag: Tag, text: &Option<Bytes>) {
    if let Some(text) = text {
        put(out, tag, &[text]);
    }
}

fn put_pairs(out: &mut impl Sink, tag: Tag, pairs: &[(Bytes, Bytes)]) {
    for (name, value) in pairs {
        put(out, tag, &[&(name.len() as u16).to_le_bytes(), name, value]);
    }
}

#[cfg(test)]
pub(crate) mod tests;
