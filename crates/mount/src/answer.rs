//! How a request is answered: on the session's thread where all that it needs is at hand, and from a task where it waits.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use filesystem::client::ClientError;
use fuse::Reply;
use fuse::reply::Body;
use tokio::runtime::Handle;

use crate::errno::errno;

/// Carries `work` out and answers with what it returns.
///
/// It is polled once here: a call of a partition in this process is ready then, and a task would only cost two changes of threads. Otherwise a task
/// goes on with it, so that the session's thread is free for the next request.
pub fn answer<T, F>(runtime: &Handle, reply: Reply<T>, work: F)
where
    T: Body + Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let mut work = Box::pin(work);
    let entered = runtime.enter();
    let polled = pin!(work.as_mut()).poll(&mut Context::from_waker(Waker::noop()));
    drop(entered);
    match polled {
        Poll::Ready(result) => send(reply, result),
        Poll::Pending => {
            runtime.spawn(async move {
                let result = work.await;
                send(reply, result);
            });
        }
    }
}

/// What does not reach the kernel any more belongs to a mount that is gone.
fn send<T: Body>(reply: Reply<T>, result: Result<T, ClientError>) {
    reply.send(result.map_err(|error| errno(&error)));
}
