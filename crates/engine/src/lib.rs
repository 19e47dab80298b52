//! What an object engine is: the interface that the log engine and the volume engine implement and that the object
//! service sees.
//!
//! An engine keeps objects under (bucket incarnation, key), linearizably per key, and lists what it keeps. It knows
//! nothing of HTTP, users, policies or checksum headers: those are attributes that it stores and returns. Every future
//! that writes may be dropped: the operation then still runs to its end or leaves no trace, and only its outcome is unheard. One that somebody else carries
//! on instead knows whether a client still [waits](Waiter) for it.
#![forbid(unsafe_code)]

mod condition;
pub mod conformance;
mod error;
mod key;
mod list;
pub mod memory;
mod object;
mod staging;
mod traits;
mod upload;
mod waiter;

pub use condition::{Condition, ETagMatch, Unmet};
pub use error::EngineError;
pub use key::{InvalidKey, ObjectKey};
pub use list::{ListItem, ListPage, ListQuery, ListedObject};
pub use object::{Committed, Content, Found, ObjectInfo, Payload};
pub use staging::{Staged, StagedChunks};
pub use traits::{ContentReader, EngineFuture, ObjectEngine};
pub use upload::{CompletePart, ListedUpload, PartContent, PartInfo, UploadPage, UploadQuery, UploadRef};
pub use waiter::{Attended, Waiter};
