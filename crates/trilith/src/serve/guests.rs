//! Guests of this node: the holders of file volumes' keys.

use crate::place::Token;
use crate::volume_key::VolumeKey;
use filesystem::Files;
use net::{Admitted, Guests};
use node::Node;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use types::FileVolumeId;

/// Lets the holders of volumes' keys in, as soon as the node serves volumes.
pub struct VolumeGuests {
    token: Token,
    node: Mutex<Weak<Node>>,
}

impl VolumeGuests {
    pub fn new(token: Token) -> VolumeGuests {
        VolumeGuests { token, node: Mutex::default() }
    }

    /// The node serves volumes from now on.
    pub fn begin(&self, node: &Arc<Node>) {
        *self.node.lock() = Arc::downgrade(node);
    }
}

impl Guests for VolumeGuests {
    fn admit(&self, number: u32) -> Option<Admitted> {
        let node = self.node.lock().upgrade()?;
        let service = node.subsystem::<Files>()?.guest_service(FileVolumeId(number))?;
        Some(Admitted { cluster: VolumeKey::of(&self.token, number).identity().cluster, service })
    }
}
