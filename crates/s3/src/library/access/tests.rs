use std::sync::Arc;

use http::Extensions;

use super::{Claimed, check_claimed};

#[test]
fn only_the_signature_that_the_guard_has_read_counts() {
    let checked = |claimed: Option<Option<&str>>, found: Option<&str>| {
        let mut extensions = Extensions::new();
        if let Some(claimed) = claimed {
            extensions.insert(Claimed(claimed.map(Arc::from)));
        }
        check_claimed(&extensions, found).is_ok()
    };
    assert!(checked(Some(None), None), "anonymous");
    assert!(checked(Some(Some("a")), Some("a")), "the one that was read");
    assert!(!checked(Some(None), Some("a")), "one that was not seen");
    assert!(!checked(Some(Some("b")), Some("a")), "another one");
    assert!(!checked(Some(Some("a")), None), "one that got lost");
    assert!(!checked(None, None), "a request that the guard has not read");
}
