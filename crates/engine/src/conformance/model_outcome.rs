//! Answers as texts that two engines must share: without orders and upload ids, which are each engine's own.

use super::support::Seen;
use crate::error::EngineError;
use crate::list::{ListItem, ListPage};
use crate::object::Committed;
use crate::upload::PartInfo;

/// What an operation answered. Reasons of errors are for people and may differ.
pub(super) fn shown<T>(outcome: Result<T, EngineError>, show: impl FnOnce(T) -> String) -> String {
    match outcome {
        Ok(value) => format!("ok {}", show(value)),
        Err(EngineError::InvalidPart { number }) => format!("invalid part {number}"),
        Err(EngineError::NoSuchUpload) => "no such upload".to_owned(),
        Err(error @ (EngineError::NotFound | EngineError::PreconditionFailed)) => error.to_string(),
        Err(error) => panic!("no engine answers this here: {error:?}"),
    }
}

pub(super) fn shown_committed(committed: Committed) -> String {
    format!("{} at {}", committed.etag, committed.modified_ms)
}

pub(super) fn shown_seen(seen: Seen) -> String {
    format!("{seen:?}")
}

pub(super) fn shown_parts(parts: Vec<PartInfo>) -> String {
    let shown = parts.iter().map(|part| format!("{}: {} of {} bytes", part.number, part.attributes.etag, part.length));
    shown.collect::<Vec<_>>().join(", ")
}

pub(super) fn shown_page(page: &ListPage) -> Vec<String> {
    let items = page.items.iter().map(|item| match item {
        ListItem::Object(object) => {
            let name = String::from_utf8_lossy(&object.key);
            format!("{name} {} {} {}", object.length, object.etag, object.modified_ms)
        }
        ListItem::Prefix(prefix) => format!("{}*", String::from_utf8_lossy(prefix)),
    });
    let end = if page.truncated { "more" } else { "end" };
    items.chain([end.to_owned()]).collect()
}
