//! Work that may wait for a file system that hangs.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Does it on a thread of its own: what else the process does goes on meanwhile, and its end does not wait for it. When nobody waits any more, what it made is dropped. Fails if
/// the system has no thread left.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (tell, told) = oneshot::channel();
    let working = move || drop(tell.send(work()));
    thread::Builder::new().name("disk-apart".to_owned()).spawn(working)?;
    Ok(told.await.expect("the thread tells how it went"))
}
