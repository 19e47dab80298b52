//! The head of each request, written into a reused buffer.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::content::{Content, name_hash};
use super::mix::{Op, Sizes};
use super::sigv4::{EMPTY_SHA256, Request, Signer, Timestamp, UNSIGNED_PAYLOAD, encode_component, encode_path};
use super::source::{Key, KeySet};
use crate::clock;
use crate::random::mix64;

/// Most URLs that are presigned before a run: about 400 bytes each.
pub const PRESIGNED_LIMIT: u64 = 2_000_000;

/// How long a presigned URL of a run lives.
pub const PRESIGNED_LIFE_SECONDS: u64 = 86_400;

/// How requests prove who sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Auth {
    /// Not at all; the bucket's policy must allow it.
    Anonymous,
    /// Authorization header, the payload's SHA-256 signed with it.
    Header,
    /// Authorization header over UNSIGNED-PAYLOAD.
    UnsignedPayload,
    /// Presigned URLs, made before the run for the keys that exist by then.
    Presigned,
}

/// Where objects live and what they are called.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// The value of the Host header.
    pub host: String,
    /// The bucket, addressed by path.
    pub bucket: String,
    /// What every key starts with.
    pub prefix: String,
    /// Distinguishes fresh keys of this run from those of earlier ones.
    pub run: u32,
    /// Object sizes.
    pub sizes: Sizes,
}

impl Namespace {
    /// The key's name after the prefix; needs no encoding.
    fn write_suffix(&self, key: Key, out: &mut String) {
        let (letter, run) = match key.set {
            KeySet::Shared => ('o', None),
            KeySet::Doomed => ('d', None),
            KeySet::Fresh => ('n', Some(self.run)),
        };
        out.push(letter);
        out.push('-');
        if let Some(run) = run {
            push_digits(u64::from(run), out);
            out.push('-');
        }
        push_digits(key.index, out);
    }

    /// The full name of a key, not encoded.
    pub fn name(&self, key: Key) -> String {
        let mut name = self.prefix.clone();
        self.write_suffix(key, &mut name);
        name
    }
}

/// Ten digits, more if needed; `write!` takes several times as long and this runs for every request.
fn push_digits(number: u64, out: &mut String) {
    let mut digits = [b'0'; 20];
    let (mut left, mut place) = (number, digits.len());
    while left > 0 {
        place -= 1;
        digits[place] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let start = place.min(digits.len() - 10);
    out.push_str(std::str::from_utf8(&digits[start..]).expect("made of ASCII digits"));
}

/// URLs signed before the run: path and query by operation and key.
pub type Presigned = HashMap<(Op, Key), Box<str>>;

/// Writes the requests of one worker.
#[derive(Debug)]
pub struct RequestWriter {
    namespace: Arc<Namespace>,
    auth: Auth,
    signer: Option<Signer>,
    presigned: Arc<Presigned>,
    list_page_size: u32,
    prefix_hash: u64,
    key_path: String,
    bucket_path: String,
    path: String,
    query: String,
    stamp: (u64, Timestamp),
}

impl RequestWriter {
    /// A writer; `signer` must be there unless requests are anonymous.
    pub fn new(
        namespace: Arc<Namespace>,
        auth: Auth,
        signer: Option<Signer>,
        presigned: Arc<Presigned>,
        list_page_size: u32,
    ) -> Self {
        assert!(auth == Auth::Anonymous || signer.is_some(), "only anonymous requests go without a signer");
        let mut bucket_path = "/".to_owned();
        encode_path(&namespace.bucket, &mut bucket_path);
        let mut key_path = format!("{bucket_path}/");
        encode_path(&namespace.prefix, &mut key_path);
        RequestWriter {
            prefix_hash: name_hash(namespace.prefix.as_bytes()),
            namespace,
            auth,
            signer,
            presigned,
            list_page_size,
            key_path,
            bucket_path,
            path: String::new(),
            query: String::new(),
            stamp: (0, Timestamp::from_unix(0)),
        }
    }

    /// The object that a key stands for. Leaves the key's path behind for the methods that follow.
    fn locate(&mut self, key: Key) -> Content {
        self.path.clear();
        self.path.push_str(&self.key_path);
        self.namespace.write_suffix(key, &mut self.path);
        let hash = mix64(self.prefix_hash ^ name_hash(&self.path.as_bytes()[self.key_path.len()..]));
        Content::new(hash, self.namespace.sizes.of(hash))
    }

    /// Writes the head of `op` on `key` and answers the object's content, which for a PUT is the body to send.
    pub fn write_object(&mut self, op: Op, key: Key, out: &mut Vec<u8>) -> Content {
        let content = self.locate(key);
        let body = if op == Op::Put { content } else { Content::empty() };
        if self.auth == Auth::Presigned
            && let Some(url) = self.presigned.get(&(op, key))
        {
            start_line(op.method(), url, "", &self.namespace.host, out);
            finish_head(op, &body, out);
            return content;
        }
        self.query.clear();
        self.write_head(op, &body, out);
        content
    }

    /// Writes the head of a listing of one page that continues at `token`.
    pub fn write_list(&mut self, token: Option<&str>, out: &mut Vec<u8>) {
        self.path.clear();
        self.path.push_str(&self.bucket_path);
        self.query.clear();
        if let Some(token) = token {
            self.query.push_str("continuation-token=");
            encode_component(token, &mut self.query);
            self.query.push('&');
        }
        self.query.push_str("list-type=2&max-keys=");
        self.query.push_str(&self.list_page_size.to_string());
        self.query.push_str("&prefix=");
        encode_component(&self.namespace.prefix, &mut self.query);
        self.write_head(Op::List, &Content::empty(), out);
    }

    /// Writes the head of CreateBucket.
    pub fn write_create_bucket(&mut self, out: &mut Vec<u8>) {
        self.path.clear();
        self.path.push_str(&self.bucket_path);
        self.query.clear();
        self.write_head(Op::Put, &Content::empty(), out);
    }

    /// Signs the URL of `op` on `key` for later.
    pub fn presign(&mut self, op: Op, key: Key) -> Box<str> {
        self.locate(key);
        self.query.clear();
        self.presign_query(op);
        format!("{}?{}", self.path, self.query).into_boxed_str()
    }

    fn presign_query(&mut self, op: Op) {
        let at = self.now();
        let signer = self.signer.as_mut().expect("checked by new");
        let host = &self.namespace.host;
        self.query = signer.presign(at, PRESIGNED_LIFE_SECONDS, op.method(), &self.path, &self.query, host);
    }

    /// The head of a request to `self.path` and `self.query`.
    fn write_head(&mut self, op: Op, body: &Content, out: &mut Vec<u8>) {
        match self.auth {
            Auth::Anonymous => start_line(op.method(), &self.path, &self.query, &self.namespace.host, out),
            Auth::Presigned => {
                self.presign_query(op);
                start_line(op.method(), &self.path, &self.query, &self.namespace.host, out);
            }
            Auth::Header => {
                let hash = if body.size() == 0 { EMPTY_SHA256.to_owned() } else { payload_hash(body) };
                self.write_signed(op, &hash, out);
            }
            Auth::UnsignedPayload => self.write_signed(op, UNSIGNED_PAYLOAD, out),
        }
        finish_head(op, body, out);
    }

    fn write_signed(&mut self, op: Op, payload_hash: &str, out: &mut Vec<u8>) {
        let at = self.now();
        let host = self.namespace.host.as_str();
        let headers = [("host", host), ("x-amz-content-sha256", payload_hash), ("x-amz-date", at.text())];
        let request = Request { method: op.method(), path: &self.path, query: &self.query, headers: &headers, payload_hash };
        let authorization = self.signer.as_mut().expect("checked by new").authorization(at, &request);
        start_line(op.method(), &self.path, &self.query, host, out);
        for part in
            ["x-amz-content-sha256: ", payload_hash, "\r\nx-amz-date: ", at.text(), "\r\nAuthorization: ", &authorization]
        {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }

    fn now(&mut self) -> Timestamp {
        let seconds = clock::unix_seconds();
        if self.stamp.0 != seconds {
            self.stamp = (seconds, Timestamp::from_unix(seconds));
        }
        self.stamp.1
    }
}

fn start_line(method: &str, path: &str, query: &str, host: &str, out: &mut Vec<u8>) {
    let question = if query.is_empty() { "" } else { "?" };
    for part in [method, " ", path, question, query, " HTTP/1.1\r\nHost: ", host, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn finish_head(op: Op, body: &Content, out: &mut Vec<u8>) {
    if op == Op::Put {
        write!(out, "Content-Length: {}\r\n", body.size()).expect("writing to memory does not fail");
    }
    out.extend_from_slice(b"\r\n");
}

fn payload_hash(body: &Content) -> String {
    let mut hash = Sha256::new();
    let mut offset = 0;
    while offset < body.size() {
        let run = body.run(offset);
        hash.update(run);
        offset += run.len() as u64;
    }
    hex::encode(hash.finalize())
}
