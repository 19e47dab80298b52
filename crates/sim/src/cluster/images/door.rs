//! How simulated clients reach images: a node's door hands out the opened image, where the program speaks NBD.

use block::protocol::ListenAt;
use block::{Door, Offered};
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The places of one process.
#[derive(Default)]
pub struct SimDoor {
    open: Mutex<BTreeMap<ListenAt, Arc<dyn Offered>>>,
}

/// Where an image is served: each has its own place.
pub fn place_of(image: &str) -> ListenAt {
    ListenAt::Socket(PathBuf::from(image))
}

impl SimDoor {
    /// What a client of an image finds here.
    pub fn offered(&self, image: &str) -> Option<Arc<dyn Offered>> {
        self.open.lock().get(&place_of(image)).cloned()
    }
}

impl Door for SimDoor {
    fn open(&self, at: &ListenAt, images: Arc<dyn Offered>) -> Result<(), String> {
        self.open.lock().insert(at.clone(), images);
        Ok(())
    }

    fn close<'a>(&'a self, at: &'a ListenAt, _: bool) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.open.lock().remove(at);
        })
    }

    fn clients(&self, _: &ListenAt) -> u64 {
        0
    }
}
