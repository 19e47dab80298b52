//! A connection that sends a request without waiting for its answer: two of them make requests that are close to each other.

use crate::systems::BUCKET;
use anyhow::{Context, bail, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest head of an answer.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A connection to one node, with at most one request under way.
pub struct Client {
    stream: TcpStream,
    address: String,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: &str) -> anyhow::Result<Client> {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream, address: address.to_owned(), buffer: Vec::new() })
    }

    pub fn send_put(&mut self, key: &str, body: &[u8]) -> anyhow::Result<()> {
        self.buffer.clear();
        write!(
            self.buffer,
            "PUT /{BUCKET}/{key} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        )?;
        self.buffer.extend_from_slice(body);
        self.stream.write_all(&self.buffer).context("sending a PUT")
    }

    pub fn send_get(&mut self, key: &str) -> anyhow::Result<()> {
        self.buffer.clear();
        write!(self.buffer, "GET /{BUCKET}/{key} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
        self.stream.write_all(&self.buffer).context("sending a GET")
    }

    /// Waits for the answer; its body. Anything but 200 is an error.
    pub fn receive(&mut self) -> anyhow::Result<&[u8]> {
        self.buffer.clear();
        let head_bytes = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.buffer.len() < MAX_HEAD_BYTES, "an answer without an end to its head");
            self.read_more()?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_bytes]).into_owned();
        let body_bytes = length_of(&head).unwrap_or(0);
        while self.buffer.len() < head_bytes + body_bytes {
            self.read_more()?;
        }
        if !head.starts_with("HTTP/1.1 200") {
            bail!("{}: {}", head.lines().next().unwrap_or_default(), String::from_utf8_lossy(&self.buffer[head_bytes..]));
        }
        Ok(&self.buffer[head_bytes..head_bytes + body_bytes])
    }

    fn read_more(&mut self) -> anyhow::Result<()> {
        let mut piece = [0; 16 * 1024];
        let count = self.stream.read(&mut piece).context("waiting for an answer")?;
        ensure!(count > 0, "{} closed the connection", self.address);
        self.buffer.extend_from_slice(&piece[..count]);
        Ok(())
    }
}

/// The length that a head announces.
pub(super) fn length_of(head: &str) -> Option<usize> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.map(|(_, value)| value.trim()).next()?.parse().ok()
}
