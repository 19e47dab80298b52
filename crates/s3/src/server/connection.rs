//! One connection from its acceptance to its end.
//!
//! Invariant: after an answer the connection is either at the first byte of the next request, or it ends. A body that no
//! handler read to its end is read and thrown away if little of it is left; otherwise the answer says `Connection: close`,
//! and what the client still sends is taken for a while after the answer: a socket closed with unread bytes is reset, and
//! the reset destroys an answer that the client has not read yet.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::answer::AnswerBody;
use super::body::RequestBody;
use super::pulse::{BodyOutcome, Order, Registration};
use super::stream::Stream;
use crate::app::App;
use crate::config::{MAX_CONNECTION_BUFFER_BYTES, MAX_DISCARD_BYTES, MAX_HEAD_BYTES, MAX_HEADER_LINES};

/// Serves requests until the client or an order ends the connection.
pub async fn run(socket: TcpStream, app: Arc<App>, registration: Arc<Registration>) {
    app.counters().connection_opened();
    let stream = Stream::new(socket, app.clone(), registration.clone());
    let mut builder = http1::Builder::new();
    // Silence is watched by the pulse, without a timer per request. No `pipeline_flush`: it keeps an answer back while bytes of
    // the next request are there, also when that one never comes, or when they are what the answer complains about.
    builder.header_read_timeout(None).max_header_size(MAX_HEAD_BYTES).max_headers(MAX_HEADER_LINES);
    builder.max_buf_size(MAX_CONNECTION_BUFFER_BYTES);
    let service = service_fn(|request| serve(&app, registration.clone(), request));
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = poll_fn(|cx| {
        match registration.connection.poll_order(cx.waker()) {
            Order::Run => {}
            Order::Drain => http.as_mut().graceful_shutdown(),
            Order::Cut => return Poll::Ready(Ok(())),
        }
        http.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        // The client went away, or sent what is not HTTP, which has been answered.
        tracing::debug!(%error, "connection ended");
        registration.connection.linger_at_end();
    }
    app.counters().connection_closed();
}

async fn serve(
    app: &App,
    registration: Arc<Registration>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    registration.connection.serving(registration.now());
    let awaits_continue = request.headers().contains_key(EXPECT);
    // HTTP lets a server answer at once where no body follows. Clients built on botocore then misread the answer to their next
    // request on the connection, and wait for a minute; so there is no next request.
    let is_answered_without_continue = awaits_continue && request.body().is_end_stream();
    let request = request.map(|incoming| RequestBody::new(incoming, registration.clone()));
    let mut response = app.answer(request).await;
    let connection = &registration.connection;
    let settled = match connection.take_outcome() {
        BodyOutcome::Settled => !is_answered_without_continue,
        BodyOutcome::Failed(failure) => {
            app.replace_after_failed_body(&mut response, failure);
            false
        }
        // A client that waits for "100 Continue" may send its body or not: nobody can know where the next request starts.
        BodyOutcome::Left(_) if awaits_continue => false,
        BodyOutcome::Left(incoming) => discard(incoming, &registration).await,
    };
    if !settled {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        connection.linger_at_end();
    }
    connection.answered(registration.now());
    Ok(response.map(|body| AnswerBody::new(body, registration)))
}

/// Reads the rest of a body if it is short; whether the end was reached.
async fn discard(incoming: Incoming, registration: &Arc<Registration>) -> bool {
    if incoming.size_hint().lower() > MAX_DISCARD_BYTES {
        return false;
    }
    let mut body = RequestBody::new(incoming, registration.clone());
    let mut discarded = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        discarded += frame.data_ref().map_or(0, |data| data.len() as u64);
        if discarded > MAX_DISCARD_BYTES {
            break;
        }
    }
    drop(body);
    matches!(registration.connection.take_outcome(), BodyOutcome::Settled)
}
