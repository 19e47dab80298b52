//! Plain HTTP/1.1 to one server, with connections that are used again.

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The body of a request.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// From the first byte of a request to the head of its answer; a part of 64 MiB over a slow line takes its time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// Without a byte of an answer's body.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Connections kept for the next request.
const MAX_IDLE: usize = 16;

/// One server.
pub struct Http {
    /// Host and port.
    authority: String,
    idle: Mutex<Vec<SendRequest<Body>>>,
}

impl Http {
    /// The server at `http://HOST:PORT` or `HOST:PORT`. Does not connect yet.
    pub fn new(endpoint: &str) -> anyhow::Result<Http> {
        let authority = endpoint.strip_prefix("http://").unwrap_or(endpoint).trim_end_matches('/');
        if authority.contains("://") {
            bail!("{endpoint}: only http:// is spoken here");
        }
        let Some((host, port)) = authority.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
            bail!("{endpoint} names no port: write for example http://127.0.0.1:9000");
        };
        if host.contains('/') || port.parse::<u16>().is_err() {
            bail!("{endpoint} is no address: write for example http://127.0.0.1:9000");
        }
        Ok(Http { authority: authority.to_owned(), idle: Mutex::new(Vec::new()) })
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Sends a request and waits for the head of its answer. `Host` is the caller's to set.
    pub async fn send(&self, request: Request<Body>) -> anyhow::Result<Answer<'_>> {
        let mut sender = self.connection().await?;
        let what = format!("{} {}", request.method(), request.uri().path());
        let answered = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
        let answered = answered.with_context(|| format!("{what}: no answer from {} in {ANSWER_TIMEOUT:?}", self.authority))?;
        let response = answered.with_context(|| format!("{what}: the connection to {} failed", self.authority))?;
        Ok(Answer { http: self, response, sender: Some(sender) })
    }

    async fn connection(&self) -> anyhow::Result<SendRequest<Body>> {
        loop {
            let Some(mut sender) = self.idle.lock().pop() else { break };
            if !sender.is_closed() && sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let hint = || format!("cannot reach a server at {}: does `trilith serve` run there?", self.authority);
        let stream =
            timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority)).await.with_context(hint)?.with_context(hint)?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its errors come to the request as well.
        drop(tokio::spawn(connection));
        Ok(sender)
    }

    fn keep(&self, sender: SendRequest<Body>) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(sender);
        }
    }
}

/// An answer whose body has not been read yet.
pub struct Answer<'a> {
    http: &'a Http,
    response: Response<Incoming>,
    sender: Option<SendRequest<Body>>,
}

impl Answer<'_> {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// The next piece of the body; none at its end, which hyper has compared with the length announced.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            let frame = timeout(STALL_TIMEOUT, self.response.body_mut().frame()).await;
            match frame.with_context(|| format!("no byte from {} in {STALL_TIMEOUT:?}", self.http.authority))? {
                None => {
                    if let Some(sender) = self.sender.take() {
                        self.http.keep(sender);
                    }
                    return Ok(None);
                }
                Some(frame) => {
                    let frame = frame.with_context(|| format!("the answer of {} broke off", self.http.authority))?;
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole body, of at most so many bytes, as text.
    pub async fn text(&mut self, most: usize) -> anyhow::Result<String> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece().await? {
            if whole.len() + piece.len() > most {
                bail!("an answer of more than {most} bytes");
            }
            whole.extend_from_slice(&piece);
        }
        String::from_utf8(whole).context("an answer that is not UTF-8")
    }

    /// Reads what there is of a body that nobody wants, so that the connection can be used again.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        while self.piece().await?.is_some() {}
        Ok(())
    }
}
