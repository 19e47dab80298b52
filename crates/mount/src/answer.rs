//! How a request is answered: on the session's thread where all that it needs is at hand, and from a task where it waits.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use filesystem::client::{CallId, Client, ClientError, in_call};
use fuse::reply::Body;
use fuse::{Delivery, Reply};
use tokio::runtime::Handle;

use crate::errno::errno;

/// Carries `work` out and answers with what it returns. The client keeps what a second run of the call would need until the kernel has the answer.
///
/// It is polled once here: a call of a partition in this process is ready then, and a task would only cost two changes of threads. Otherwise a task
/// goes on with it, so that the session's thread is free for the next request.
pub fn answer<T, F>(runtime: &Handle, client: Arc<Client>, reply: Reply<T>, work: F)
where
    T: Body + Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let call = CallId(reply.id().0);
    let mut work = Box::pin(in_call(call, work));
    let entered = runtime.enter();
    let polled = pin!(work.as_mut()).poll(&mut Context::from_waker(Waker::noop()));
    drop(entered);
    match polled {
        Poll::Ready(result) => send(&client, call, reply, result),
        Poll::Pending => {
            runtime.spawn(async move {
                let result = work.await;
                send(&client, call, reply, result);
            });
        }
    }
}

/// What does not reach the kernel belongs to a mount that is gone, or is left to the next process.
fn send<T: Body>(client: &Client, call: CallId, reply: Reply<T>, result: Result<T, ClientError>) {
    if reply.send(result.map_err(|error| errno(&error))) == Delivery::Delivered {
        client.answered(call);
    }
}
