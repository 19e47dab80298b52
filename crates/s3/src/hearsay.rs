//! Requests about what this process has not heard of: in a cluster another node may have been told a moment ago.

use http::Method;
use http::request::Parts;
use manager::{Manager, Snapshot};

use crate::failure::{Failure, SERVICE_UNAVAILABLE};
use crate::guard::Admitted;

/// Waits, if the request is about a bucket or from a user that the manager's local state does not show, or about what the manager keeps and
/// nothing else, until that state holds all that was acknowledged before. Other requests go on to the engine, which answers under a lease,
/// and a change returns when nobody who knows less has one. A manager that is alone shows everything always.
pub async fn hear_of(manager: &Manager, head: &Parts, admitted: &Admitted<'_>) -> Result<(), Failure> {
    if !is_of_records(head, admitted) && shows(&manager.snapshot(), admitted) {
        return Ok(());
    }
    manager.fresh().await.map_err(|error| {
        tracing::warn!(%error, "cannot tell whether a bucket or a user exists");
        SERVICE_UNAVAILABLE.into()
    })
}

/// All buckets, whether there is one, where it is, its policy.
fn is_of_records(head: &Parts, Admitted { target, query, .. }: &Admitted<'_>) -> bool {
    target.key.is_empty() && (target.bucket.is_empty() || head.method == Method::HEAD || query.has_any(&["location", "policy"]))
}

fn shows(state: &Snapshot, Admitted { target, claim, .. }: &Admitted<'_>) -> bool {
    let is_user_known = claim.as_ref().is_none_or(|claim| state.credential(&claim.access_key).is_some());
    is_user_known && state.bucket(&target.bucket).is_some()
}
