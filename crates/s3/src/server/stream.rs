//! A socket that reports to its connection's record when bytes move, and that lingers when it is shut.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::pulse::Registration;
use crate::config::MAX_LINGER_BYTES;

/// The socket of one connection.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    registration: Arc<Registration>,
    ending: Ending,
}

/// How far the end of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Open,
    /// Our side is shut; what the client still sends is thrown away.
    Lingering {
        drained_bytes: u64,
    },
}

/// Bytes of the buffer into which a lingering connection reads.
const LINGER_BUFFER_BYTES: usize = 16 * 1024;

impl Stream {
    pub fn new(socket: TcpStream, registration: Arc<Registration>) -> Stream {
        Stream { socket, registration, ending: Ending::Open }
    }

    /// Takes what the client still sends, so that it finds our answer before it finds the connection reset. Ready when the
    /// client has ended too, or has sent too much; the clockwork ends it when it takes too long.
    fn poll_linger(&mut self, cx: &mut Context<'_>, mut drained_bytes: u64) -> Poll<io::Result<()>> {
        let mut space = [0u8; LINGER_BUFFER_BYTES];
        while drained_bytes < MAX_LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.socket).poll_read(cx, &mut buffer) {
                Poll::Pending => {
                    self.ending = Ending::Lingering { drained_bytes };
                    return Poll::Pending;
                }
                Poll::Ready(Err(_)) => break,
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => break,
                Poll::Ready(Ok(())) => drained_bytes += buffer.filled().len() as u64,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn note_write(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let connection = &self.registration.connection;
        match written {
            Poll::Ready(_) => connection.sent(self.registration.now()),
            Poll::Pending => connection.send_blocked(self.registration.now()),
        }
        written
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.registration.connection.received(self.registration.now());
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.note_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.note_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Ending::Lingering { drained_bytes } = self.ending {
            return self.poll_linger(cx, drained_bytes);
        }
        match Pin::new(&mut self.socket).poll_shutdown(cx) {
            Poll::Ready(Ok(())) if self.registration.connection.must_linger() => {
                self.registration.connection.lingering(self.registration.now());
                self.poll_linger(cx, 0)
            }
            shut => shut,
        }
    }
}
