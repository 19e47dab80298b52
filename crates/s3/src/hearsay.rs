//! Requests about what this process has not heard of: in a cluster another node may have been told a moment ago.

use manager::{Manager, Snapshot};

use crate::failure::{Failure, SERVICE_UNAVAILABLE};
use crate::guard::Admitted;

/// Waits, if the request is about a bucket or from a user that the manager's local state does not show, or about all buckets, until that
/// state holds all that was acknowledged before. A manager that is alone shows everything always.
pub async fn hear_of(manager: &Manager, admitted: &Admitted<'_>) -> Result<(), Failure> {
    if shows(&manager.snapshot(), admitted) {
        return Ok(());
    }
    manager.fresh().await.map_err(|error| {
        tracing::warn!(%error, "cannot tell whether a bucket or a user exists");
        SERVICE_UNAVAILABLE.into()
    })
}

fn shows(state: &Snapshot, Admitted { target, claim, .. }: &Admitted<'_>) -> bool {
    let is_user_known = claim.as_ref().is_none_or(|claim| state.credential(&claim.access_key).is_some());
    is_user_known && state.bucket(&target.bucket).is_some()
}
