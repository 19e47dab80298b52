//! Conditions of reads (RFC 9110, section 13): what a client knows already, judged against the version that was found.

use engine::{ETagMatch, ObjectInfo};
use format::attributes::ETag;

use crate::error::ObjectError;

/// What must hold of an object for a read of it. Times are seconds since 1970, as HTTP dates are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadConditions {
    pub if_match: Option<ETagMatch>,
    pub if_none_match: Option<ETagMatch>,
    pub if_modified_since: Option<u64>,
    pub if_unmodified_since: Option<u64>,
}

/// What a condition that does not hold comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// The client has what it needs.
    NotModified { condition: &'static str },
    /// The object is not the one that the client means.
    Failed { condition: &'static str },
}

impl ReadConditions {
    /// Judges in the order of RFC 9110, section 13.2.2: a tag condition makes the date condition of its kind moot.
    pub(crate) fn check(&self, etag: &ETag, modified_ms: u64) -> Result<(), Unmet> {
        let modified = modified_ms / 1000;
        if let Some(tags) = &self.if_match {
            if !matches(tags, etag) {
                return Err(Unmet::Failed { condition: "If-Match" });
            }
        } else if self.if_unmodified_since.is_some_and(|since| modified > since) {
            return Err(Unmet::Failed { condition: "If-Unmodified-Since" });
        }
        if let Some(tags) = &self.if_none_match {
            if matches(tags, etag) {
                return Err(Unmet::NotModified { condition: "If-None-Match" });
            }
        } else if self.if_modified_since.is_some_and(|since| modified <= since) {
            return Err(Unmet::NotModified { condition: "If-Modified-Since" });
        }
        Ok(())
    }

    /// For GET and HEAD.
    pub(crate) fn check_read(&self, info: &ObjectInfo) -> Result<(), ObjectError> {
        self.check(&info.attributes.etag, info.attributes.modified_ms).map_err(|unmet| match unmet {
            Unmet::NotModified { .. } => ObjectError::NotModified(Box::new(info.clone())),
            Unmet::Failed { condition } => ObjectError::PreconditionFailed { condition },
        })
    }

    /// For the source of a copy, where nothing can be answered with "you have it".
    pub(crate) fn check_source(&self, info: &ObjectInfo) -> Result<(), ObjectError> {
        self.check(&info.attributes.etag, info.attributes.modified_ms).map_err(|unmet| match unmet {
            Unmet::NotModified { condition } | Unmet::Failed { condition } => ObjectError::PreconditionFailed { condition },
        })
    }
}

fn matches(tags: &ETagMatch, etag: &ETag) -> bool {
    match tags {
        ETagMatch::Any => true,
        ETagMatch::OneOf(tags) => tags.contains(etag),
    }
}

#[cfg(test)]
mod tests;
