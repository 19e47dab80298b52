//! How a program lets clients in: `block` knows which images are served where, and speaks no protocol.

use std::sync::Arc;

use net::BoxFuture;

use crate::image::Image;
use crate::protocol::ListenAt;

/// Listens for clients.
pub trait Door: Send + Sync {
    /// Serves the images at a place. The error says what to do.
    fn open(&self, at: &ListenAt, images: Arc<dyn Offered>) -> Result<(), String>;

    /// Answers what is under way, and listens there no more. Unless it is for good, clients may come back to the next start.
    fn close<'a>(&'a self, at: &'a ListenAt, for_good: bool) -> BoxFuture<'a, ()>;

    /// Connections that are open.
    fn clients(&self, at: &ListenAt) -> u64;
}

/// The images of one place.
pub trait Offered: Send + Sync {
    fn images(&self) -> Vec<String>;

    /// An image that stays open at least as long as the answer is kept. The error says what to do.
    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<OpenImage>, String>>;
}

/// An image that this node has open.
pub struct OpenImage {
    name: String,
    image: Image,
}

impl OpenImage {
    pub(crate) fn new(name: String, image: Image) -> OpenImage {
        OpenImage { name, image }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn image(&self) -> &Image {
        &self.image
    }
}
