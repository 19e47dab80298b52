//! Conditions of a write, evaluated by the engine under the key's freeze (RFD 2, decision 18).

use format::attributes::ETag;

/// Entity tags of an `If-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETagMatch {
    /// `*`: any object that exists.
    Any,
    /// One of these.
    OneOf(Vec<ETag>),
}

/// What must hold of the newest version for a write to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// A blind write.
    #[default]
    None,
    /// `If-None-Match: *`: no object under this key.
    Absent,
    /// `If-Match`: an object under this key, with one of these tags. On an absent key the answer is "not found".
    Match(ETagMatch),
    /// `If-None-Match` with tags: no object, or one with another tag.
    NoneMatch(Vec<ETag>),
}

/// Outcome of a condition that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The key is absent, and the condition names a tag that it should have.
    Absent,
    /// The newest version does not satisfy the condition.
    Differs,
}

impl Condition {
    /// Whether a write with this condition needs the key's freeze.
    pub fn is_blind(&self) -> bool {
        matches!(self, Condition::None)
    }

    /// Evaluates against the newest version's tag; `None` for an absent key.
    pub fn check(&self, newest: Option<&ETag>) -> Result<(), Unmet> {
        match (self, newest) {
            (Condition::None, _) | (Condition::Absent | Condition::NoneMatch(_), None) => Ok(()),
            (Condition::Absent, Some(_)) => Err(Unmet::Differs),
            (Condition::Match(_), None) => Err(Unmet::Absent),
            (Condition::Match(ETagMatch::Any), Some(_)) => Ok(()),
            (Condition::Match(ETagMatch::OneOf(tags)), Some(tag)) => tags.contains(tag).then_some(()).ok_or(Unmet::Differs),
            (Condition::NoneMatch(tags), Some(tag)) => (!tags.contains(tag)).then_some(()).ok_or(Unmet::Differs),
        }
    }
}
