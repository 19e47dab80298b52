//! Between the engine's words and those of the wire.

use ::engine::{Condition, ETagMatch, EngineError, ListItem, ListedObject};
use format::attributes::{Attributes, ETag};

use super::{Failure, Packed, WireCondition, WireItem};
use crate::record::decode_attributes;

fn packed_tag(etag: ETag) -> Packed {
    Attributes { etag, ..Attributes::default() }.to_bytes().to_vec().into()
}

fn tags_of(tags: &[Packed]) -> Option<Vec<ETag>> {
    tags.iter().map(|tag| Some(decode_attributes(tag).ok()?.etag)).collect()
}

pub fn wire_condition(condition: &Condition) -> WireCondition {
    match condition {
        Condition::None => WireCondition::None,
        Condition::Absent => WireCondition::Absent,
        Condition::Match(ETagMatch::Any) => WireCondition::MatchAny,
        Condition::Match(ETagMatch::OneOf(tags)) => WireCondition::MatchOneOf(tags.iter().copied().map(packed_tag).collect()),
        Condition::NoneMatch(tags) => WireCondition::NoneMatch(tags.iter().copied().map(packed_tag).collect()),
    }
}

/// None if a tag is none.
pub fn condition_of(condition: &WireCondition) -> Option<Condition> {
    Some(match condition {
        WireCondition::None => Condition::None,
        WireCondition::Absent => Condition::Absent,
        WireCondition::MatchAny => Condition::Match(ETagMatch::Any),
        WireCondition::MatchOneOf(tags) => Condition::Match(ETagMatch::OneOf(tags_of(tags)?)),
        WireCondition::NoneMatch(tags) => Condition::NoneMatch(tags_of(tags)?),
    })
}

pub fn wire_listed(item: ListItem) -> WireItem {
    match item {
        ListItem::Prefix(prefix) => WireItem::Prefix(prefix.to_vec()),
        ListItem::Object(ListedObject { key, length, etag, modified_ms, storage_class, checksum }) => {
            let attributes =
                Attributes { etag, modified_ms, storage_class, upload_checksum: checksum, ..Attributes::default() };
            WireItem::Object { key: key.to_vec(), length, attributes: attributes.to_bytes().to_vec().into() }
        }
    }
}

/// None if the attributes are none.
pub fn listed_of(item: WireItem) -> Option<ListItem> {
    Some(match item {
        WireItem::Prefix(prefix) => ListItem::Prefix(prefix.into()),
        WireItem::Object { key, length, attributes } => {
            let attributes = decode_attributes(&attributes).ok()?;
            let checksum = attributes.checksum_scheme();
            let Attributes { etag, modified_ms, storage_class, .. } = attributes;
            ListItem::Object(ListedObject { key: key.into(), length, etag, modified_ms, storage_class, checksum })
        }
    })
}

pub fn failure_of(error: EngineError) -> Failure {
    match error {
        EngineError::NotFound => Failure::NotFound,
        EngineError::NoSuchUpload => Failure::NoSuchUpload,
        EngineError::InvalidPart { number } => Failure::InvalidPart(number),
        EngineError::PreconditionFailed => Failure::PreconditionFailed,
        EngineError::Conflict { reason } => Failure::Conflict(reason),
        EngineError::Full => Failure::Full,
        EngineError::Unavailable { reason } => Failure::Unavailable(reason),
        EngineError::DeviceMissing { reason } => Failure::DeviceMissing(reason),
        EngineError::Corrupt { detail } => Failure::Corrupt(detail),
        EngineError::Busy { reason } => Failure::Busy(reason),
        EngineError::Invalid { reason } => Failure::Invalid(reason),
        EngineError::Internal { detail } => Failure::Internal(detail),
    }
}

pub fn engine_error(failure: Failure) -> EngineError {
    match failure {
        Failure::NotFound => EngineError::NotFound,
        Failure::NoSuchUpload => EngineError::NoSuchUpload,
        Failure::InvalidPart(number) => EngineError::InvalidPart { number },
        Failure::PreconditionFailed => EngineError::PreconditionFailed,
        Failure::Conflict(reason) => EngineError::Conflict { reason },
        Failure::Full => EngineError::Full,
        Failure::Unavailable(reason) => EngineError::Unavailable { reason },
        Failure::DeviceMissing(reason) => EngineError::DeviceMissing { reason },
        Failure::Corrupt(detail) => EngineError::Corrupt { detail },
        Failure::Busy(reason) => EngineError::Busy { reason },
        Failure::Invalid(reason) => EngineError::Invalid { reason },
        Failure::Internal(detail) => EngineError::Internal { detail },
    }
}
