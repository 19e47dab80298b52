//! Guests: processes that are no nodes, and that have the key of one numbered thing of the cluster, a file volume (docs/rfd/0029).
//!
//! A key is a cluster of its own, as far as connections go: it has an id, [`guest_cluster`], and a secret. So proofs and certificates are those of nodes.
//! A node learns from the beginning of a connection which key is meant, and serves what the number stands for, and nothing else.

use std::sync::Arc;

use types::{ClusterId, NodeIdentity};

use crate::call::Service;

/// What the ids of guests begin with. Those of clusters and nodes are drawn.
const MARK: [u8; 12] = *b"trilithguest";

/// The id under which the guests of a number connect.
pub fn guest_cluster(number: u32) -> ClusterId {
    let mut id = [0; 16];
    id[..MARK.len()].copy_from_slice(&MARK);
    id[MARK.len()..].copy_from_slice(&number.to_be_bytes());
    ClusterId(id)
}

/// What a guest of a number calls itself instead of a node.
pub fn guest_node(number: u32) -> NodeIdentity {
    NodeIdentity(guest_cluster(number).0)
}

/// The number in an id of [`guest_cluster`]; none for the id of a cluster or a node.
pub fn guest_number(id: &[u8; 16]) -> Option<u32> {
    let number = id.strip_prefix(&MARK)?;
    Some(u32::from_be_bytes(number.try_into().expect("four bytes are left")))
}

/// Which guests a node lets in.
pub trait Guests: Send + Sync + 'static {
    /// What guests of this number get; none if there is nothing of that number here.
    fn admit(&self, number: u32) -> Option<Admitted>;
}

/// A number whose guests are let in, if they have its key.
pub struct Admitted {
    /// As in [`crate::Identity`]: with certificates the id, without them what only the holders of the key know.
    pub cluster: ClusterId,
    /// All that they can call.
    pub service: Arc<dyn Service>,
}

#[cfg(test)]
mod tests;
