use engine::ETagMatch;
use format::attributes::ETag;

use super::{ReadConditions, Unmet};

const MODIFIED: u64 = 1_000_000;

fn tag(number: u8) -> ETag {
    ETag::Md5([number; 16])
}

fn one(number: u8) -> Option<ETagMatch> {
    Some(ETagMatch::OneOf(vec![tag(9), tag(number)]))
}

/// Judges against an object with tag 1, modified half a second after `MODIFIED`.
fn judged(conditions: ReadConditions) -> &'static str {
    match conditions.check(&tag(1), MODIFIED * 1000 + 500) {
        Ok(()) => "ok",
        Err(Unmet::NotModified { .. }) => "not modified",
        Err(Unmet::Failed { .. }) => "failed",
    }
}

#[test]
fn each_condition_alone() {
    let none = ReadConditions::default;
    let cases = [
        (none(), "ok"),
        (ReadConditions { if_match: one(1), ..none() }, "ok"),
        (ReadConditions { if_match: Some(ETagMatch::Any), ..none() }, "ok"),
        (ReadConditions { if_match: one(2), ..none() }, "failed"),
        (ReadConditions { if_match: Some(ETagMatch::OneOf(vec![])), ..none() }, "failed"),
        (ReadConditions { if_none_match: one(1), ..none() }, "not modified"),
        (ReadConditions { if_none_match: Some(ETagMatch::Any), ..none() }, "not modified"),
        (ReadConditions { if_none_match: one(2), ..none() }, "ok"),
        (ReadConditions { if_modified_since: Some(MODIFIED - 1), ..none() }, "ok"),
        // Dates have whole seconds: what was modified within the second is not newer than it.
        (ReadConditions { if_modified_since: Some(MODIFIED), ..none() }, "not modified"),
        (ReadConditions { if_modified_since: Some(MODIFIED + 1), ..none() }, "not modified"),
        (ReadConditions { if_unmodified_since: Some(MODIFIED - 1), ..none() }, "failed"),
        (ReadConditions { if_unmodified_since: Some(MODIFIED), ..none() }, "ok"),
        (ReadConditions { if_unmodified_since: Some(MODIFIED + 1), ..none() }, "ok"),
    ];
    for (conditions, expected) in cases {
        assert_eq!(judged(conditions.clone()), expected, "{conditions:?}");
    }
}

#[test]
fn tags_make_dates_moot() {
    let none = ReadConditions::default;
    let cases = [
        (ReadConditions { if_match: one(1), if_unmodified_since: Some(MODIFIED - 1), ..none() }, "ok"),
        (ReadConditions { if_match: one(2), if_unmodified_since: Some(MODIFIED), ..none() }, "failed"),
        (ReadConditions { if_none_match: one(2), if_modified_since: Some(MODIFIED), ..none() }, "ok"),
        (ReadConditions { if_none_match: one(1), if_modified_since: Some(MODIFIED - 1), ..none() }, "not modified"),
        (ReadConditions { if_match: one(1), if_none_match: one(1), ..none() }, "not modified"),
        (ReadConditions { if_match: one(2), if_none_match: one(1), ..none() }, "failed"),
        (ReadConditions { if_match: one(1), if_modified_since: Some(MODIFIED), ..none() }, "not modified"),
        (ReadConditions { if_unmodified_since: Some(MODIFIED - 1), if_none_match: one(1), ..none() }, "failed"),
    ];
    for (conditions, expected) in cases {
        assert_eq!(judged(conditions.clone()), expected, "{conditions:?}");
    }
}
