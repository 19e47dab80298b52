//! A socket that reports to its connection's record when bytes move, that lingers when its connection says so, and that says in
//! S3's words what the HTTP library says of bytes that are no request.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::pulse::{Order, Registration};
use super::unparsed::Unparsed;
use crate::app::App;
use crate::config::MAX_LINGER_BYTES;
use crate::failure::{Failure, HTTP_VERSION_NOT_SUPPORTED};

/// The socket of one connection.
pub struct Stream {
    /// Taken out when it is dropped.
    socket: Option<TcpStream>,
    app: Arc<App>,
    registration: Arc<Registration>,
    /// What is said of a request that could not be read, once there was one.
    unparsed: Option<Unparsed>,
    /// Whether the client has sent something.
    has_received: bool,
    /// What is said when the HTTP library has ended the connection without a word.
    parting: Bytes,
}

/// What an HTTP/2 client sends first, as far as it is a line (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";

/// Bytes of the buffer into which a lingering connection reads.
const LINGER_BUFFER_BYTES: usize = 16 * 1024;

impl Stream {
    pub fn new(socket: TcpStream, app: Arc<App>, registration: Arc<Registration>) -> Stream {
        Stream { socket: Some(socket), app, registration, unparsed: None, has_received: false, parting: Bytes::new() }
    }

    fn socket(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.socket.as_mut().expect("there until it is dropped"))
    }

    /// Looks at the first bytes of the connection. The HTTP library ends one that begins with [`HTTP2_PREFACE`], and says nothing.
    fn look_at_first(&mut self, bytes: &[u8]) {
        if !std::mem::replace(&mut self.has_received, true) && bytes.starts_with(HTTP2_PREFACE) {
            self.parting = self.app.refuse_unparsed(&Failure::new(HTTP_VERSION_NOT_SUPPORTED));
        }
    }

    fn note_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let connection = &self.registration.connection;
        match written {
            Poll::Ready(ref written) => connection.sent(*written.as_ref().unwrap_or(&0), self.registration.now()),
            Poll::Pending => connection.send_blocked(self.registration.now()),
        }
        written
    }

    /// Sends our own words instead of `bytes` if those are the HTTP library's about a request that it could not read; `None` if
    /// they are an answer of ours.
    fn poll_instead(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.registration.connection.is_answering() {
            return None;
        }
        if self.unparsed.is_none() {
            self.unparsed = Some(Unparsed::instead_of(bytes, &self.app)?);
        }
        loop {
            let unparsed = self.unparsed.as_ref().expect("just made");
            if unparsed.rest().is_empty() {
                return Some(Poll::Ready(Ok(bytes.len())));
            }
            let socket = Pin::new(self.socket.as_mut().expect("there until it is dropped"));
            let written = socket.poll_write(cx, unparsed.rest());
            match self.note_write(written) {
                Poll::Ready(Ok(count)) if count > 0 => self.unparsed.as_mut().expect("just made").sent(count),
                other => return Some(other),
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take()
            && self.registration.connection.must_linger()
        {
            tokio::spawn(linger(socket, std::mem::take(&mut self.parting), self.registration.clone()));
        }
    }
}

/// Ends our side and takes what the client still sends, so that it finds our answer before it finds the connection reset. Ends
/// when the client ends too, or has sent too much, or the clockwork says that it took too long.
async fn linger(mut socket: TcpStream, parting: Bytes, registration: Arc<Registration>) {
    registration.connection.lingering(registration.now());
    // It fits the socket's empty buffer: nothing was sent before.
    if socket.write_all(&parting).await.is_err() || socket.shutdown().await.is_err() {
        return;
    }
    let mut space = [0u8; LINGER_BUFFER_BYTES];
    let mut drained_bytes = 0;
    poll_fn(|cx| {
        while drained_bytes < MAX_LINGER_BYTES && registration.connection.poll_order(cx.waker()) != Order::Cut {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut socket).poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => drained_bytes += buffer.filled().len() as u64,
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    })
    .await;
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.socket().poll_read(cx, buf);
        if buf.filled().len() > before {
            self.registration.connection.received(self.registration.now());
            self.look_at_first(&buf.filled()[before..]);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(instead) = self.poll_instead(cx, bytes) {
            return instead;
        }
        let written = self.socket().poll_write(cx, bytes);
        self.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // What the HTTP library says by itself is one piece.
        if let [bytes] = slices
            && let Some(instead) = self.poll_instead(cx, bytes)
        {
            return instead;
        }
        let written = self.socket().poll_write_vectored(cx, slices);
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.as_ref().is_some_and(TcpStream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Asked for only when nothing is left to write.
        self.registration.connection.flushed();
        self.socket().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket().poll_shutdown(cx)
    }
}
