//! Requests about what this process has not heard of: in a cluster another node may have been told a moment ago.

#[cfg(test)]
mod tests;

use http::request::Parts;
use http::{HeaderMap, Method};
use manager::{Manager, Snapshot};
use percent_encoding::percent_decode;

use crate::failure::{Failure, SERVICE_UNAVAILABLE};
use crate::guard::Admitted;

/// Waits, if the request is about a bucket, copies from one, or is from a user that the manager's local state does not show, or about what the manager keeps and
/// nothing else, until that state holds all that was acknowledged before. Other requests go on to the engine, which answers under a lease,
/// and a change returns when nobody who knows less has one. A manager that is alone shows everything always.
pub async fn hear_of(manager: &Manager, head: &Parts, admitted: &Admitted<'_>) -> Result<(), Failure> {
    if !is_of_records(head, admitted) && shows(&manager.snapshot(), head, admitted) {
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

fn shows(state: &Snapshot, head: &Parts, Admitted { target, claim, .. }: &Admitted<'_>) -> bool {
    let is_user_known = claim.as_ref().is_none_or(|claim| state.credential(&claim.access_key).is_some());
    is_user_known
        && state.bucket(&target.bucket).is_some()
        && copied_bucket(&head.headers).is_none_or(|bucket| state.bucket(&bucket).is_some())
}

/// The bucket from which a copy is to be made: what stands before the key in the header.
fn copied_bucket(headers: &HeaderMap) -> Option<String> {
    let source = percent_decode(headers.get("x-amz-copy-source")?.as_bytes()).decode_utf8_lossy();
    let source = source.strip_prefix('/').unwrap_or(&source);
    source.split('/').next().map(str::to_owned)
}
