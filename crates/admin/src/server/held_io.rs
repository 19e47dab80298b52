//! Reading and writing of a counted connection: the socket's own, passed through, but for clients that begin to speak HTTP/2. Those are
//! answered here, because the HTTP library ends their connections and says nothing.

use super::Held;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What an HTTP/2 client sends first, as far as it is a line (RFC 9113, section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// What it is told.
const HTTP1_ONLY: &str = "HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n\
                          This port speaks HTTP/1.1, and the client has begun to speak HTTP/2: set the client to HTTP/1.1 (curl: --http1.1).\n";

/// Bytes that are thrown away at a time.
const WASTE_BYTES: usize = 4 * 1024;

/// How a connection began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    NotYet,
    /// As the HTTP library knows it, which sees all that comes.
    Known,
    /// It was answered, and the HTTP library sees the end of it.
    Http2,
}

impl Held {
    fn begin(&mut self, bytes: &[u8]) {
        if self.begun != Begun::NotYet || bytes.is_empty() {
            return;
        }
        self.begun = if bytes.starts_with(HTTP2_PREFACE) { Begun::Http2 } else { Begun::Known };
        if self.begun == Begun::Http2 {
            // It fits the socket's empty buffer. A client that has gone needs no answer.
            drop(self.stream.try_write(HTTP1_ONLY.as_bytes()));
            // A socket that is closed with unread bytes resets the connection, and the answer is lost with it.
            let mut waste = [0; WASTE_BYTES];
            while self.stream.try_read(&mut waste).is_ok_and(|count| count > 0) {}
        }
    }
}

impl AsyncRead for Held {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.begun == Begun::Http2 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.begin(&buf.filled()[before..]);
        if self.begun == Begun::Http2 {
            buf.set_filled(before);
        }
        read
    }
}

impl AsyncWrite for Held {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
