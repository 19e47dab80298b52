//! The rows of one group in the node's row store: what a machine of [`Rows`](crate::Rows) is kept as.
//!
//! ```text
//!   group 8 │ 0 8                 │  header: generation, applied position, membership
//!   group 8 │ generation 8 │ key  │  a row
//!             ▲
//!             └─ the header's: the state. The next one: a snapshot on its way in. Others: given up
//! ```
//!
//! | step | batch | after a crash behind it |
//! |---|---|---|
//! | a snapshot is made | changed rows and the header, in one | the state is of the header's position; the log has what follows |
//! | a slice of a leader's snapshot comes | rows of the next generation | they are given up: the snapshot is sent anew |
//! | the last slice was there | the header, with the next generation | the state is the leader's |
//! | rows of other generations are given up | so many rows | the rest is given up at the start |
//!
//! Invariants
//! - The header's position and the rows of its generation are of one moment: they change in one batch.
//! - The log gives up entries through a position when the header has it, durably. So rows and log together are the whole state.
//! - Rows of a generation that is not the header's mean nothing.

mod incoming;
mod load;
mod store;
mod stream;

pub(crate) use incoming::{IncomingRows, RowsReceived};
pub(crate) use load::load;
pub(crate) use store::{RowSnapshot, RowStore, RowsError, forget, groups};
pub(crate) use stream::RowReader;

/// A row: key and value.
type Row = (Vec<u8>, Vec<u8>);

/// Does what may wait for a device where no other task waits for the thread. In a simulation it is done here.
pub(crate) async fn aside<T: Send + 'static>(waits: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T, RowsError> {
    match waits {
        true => tokio::task::spawn_blocking(work).await.map_err(|_| RowsError::Ended),
        false => Ok(work()),
    }
}
