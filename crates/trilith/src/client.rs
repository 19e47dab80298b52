//! A small S3 client for the command line: one request at a time on a connection, bodies streamed, errors in S3's own words.
//!
//! ```text
//!   commands ──► S3 (sign, address, judge) ──► Http (connections) ──► server
//! ```

mod args;
mod content;
mod error;
mod http;
mod list;
mod upload;
mod xml;

pub use args::ClientArgs;
pub use content::Content;
pub use error::S3Error;
pub use http::{Answer, Http};
pub use list::Listed;
pub use xml::{element, elements};

use ::http::{Method, Request};
use anyhow::Context;
use bench::s3::sigv4::{self, Signer, Timestamp};
use env::Env;
use parking_lot::Mutex;

/// Most bytes of an answer that is XML: a page of 1,000 keys of 1,024 bytes, every byte escaped.
const MAX_XML_BYTES: usize = 16 << 20;

/// A client of one S3 endpoint.
pub struct S3 {
    http: Http,
    /// None: requests are anonymous.
    signer: Option<Mutex<Signer>>,
    env: Env,
}

/// One request.
pub struct Call<'a> {
    pub method: Method,
    /// Empty: the service itself.
    pub bucket: &'a str,
    /// Empty: the bucket itself.
    pub key: &'a str,
    pub query: Vec<(&'a str, String)>,
    /// Names in lower case.
    pub headers: Vec<(&'a str, String)>,
    pub content: Content,
}

impl<'a> Call<'a> {
    /// A request without query, headers or body.
    pub fn new(method: Method, bucket: &'a str, key: &'a str) -> Self {
        Call { method, bucket, key, query: Vec::new(), headers: Vec::new(), content: Content::Empty }
    }

    pub fn query(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub fn header(mut self, name: &'a str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn content(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    fn path(&self) -> String {
        let mut path = String::from("/");
        sigv4::encode_component(self.bucket, &mut path);
        if !self.key.is_empty() {
            path.push('/');
            sigv4::encode_path(self.key, &mut path);
        }
        path
    }

    /// Encoded and sorted, as signatures want it.
    fn encoded_query(&self) -> String {
        let mut pairs: Vec<(String, String)> = self.query.iter().map(|(name, value)| (encoded(name), encoded(value))).collect();
        pairs.sort();
        pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }
}

impl S3 {
    pub fn new(http: Http, signer: Option<Signer>, env: Env) -> S3 {
        S3 { http, signer: signer.map(Mutex::new), env }
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Sends a request; an answer outside 2xx is an [`S3Error`].
    pub async fn call(&self, call: Call<'_>) -> anyhow::Result<Answer<'_>> {
        let request = self.request(&call).await?;
        let mut answer = self.http.send(request).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let xml =
            if call.method == Method::HEAD { String::new() } else { answer.text(MAX_XML_BYTES).await.unwrap_or_default() };
        Err(S3Error::of(status, &xml, &call).into())
    }

    /// Sends a request and reads its XML. An error may come with status 200, when the server had to begin its answer early.
    pub async fn call_for_text(&self, call: Call<'_>) -> anyhow::Result<String> {
        let (bucket, key, method) = (call.bucket, call.key, call.method.clone());
        let mut answer = self.call(call).await?;
        let status = answer.status().as_u16();
        let text = answer.text(MAX_XML_BYTES).await?;
        if text.contains("<Error>") {
            return Err(S3Error::of(status, &text, &Call::new(method, bucket, key)).into());
        }
        Ok(text)
    }

    async fn request(&self, call: &Call<'_>) -> anyhow::Result<Request<http::Body>> {
        let hash = call.content.sha256().await?;
        let (path, query) = (call.path(), call.encoded_query());
        let at = Timestamp::from_unix(self.env.wall_clock_ms() / 1000);
        let mut headers: Vec<(&str, &str)> = call.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.extend([("host", self.http.authority()), ("x-amz-content-sha256", &hash), ("x-amz-date", at.text())]);
        headers.sort_unstable();
        let uri = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(&call.method).uri(uri);
        for (name, value) in &headers {
            request = request.header(*name, *value);
        }
        if let Some(signer) = &self.signer {
            let signed = sigv4::Request {
                method: call.method.as_str(),
                path: &path,
                query: &query,
                headers: &headers,
                payload_hash: &hash,
            };
            request = request.header("authorization", signer.lock().authorization(at, &signed));
        }
        if call.content.length() > 0 || call.method == Method::PUT || call.method == Method::POST {
            request = request.header("content-length", call.content.length());
        }
        request.body(call.content.body()).context("composing a request")
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    sigv4::encode_component(text, &mut out);
    out
}

#[cfg(test)]
mod tests;
