//! Signature Version 4 from the side of a client, written apart from the server's.

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::server::{ACCESS_KEY, SECRET};

pub const REGION: &str = "us-east-1";

/// A request to be signed. The path and the query are as they stand in the request line.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub access_key: String,
    pub secret: String,
    /// Seconds since 1970.
    pub time: u64,
    /// `None` for the hash of the body.
    pub content_sha256: Option<String>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Request {
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: vec![(String::from("host"), String::from("localhost"))],
            body: Vec::new(),
            access_key: ACCESS_KEY.to_owned(),
            secret: SECRET.to_owned(),
            time: now(),
            content_sha256: None,
        }
    }

    pub fn query(mut self, query: &str) -> Request {
        self.query = query.to_owned();
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.retain(|(found, _)| found != name || name != "host");
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// The head without a signature.
    pub fn anonymous(&self) -> String {
        self.head(&[])
    }

    /// The head, signed by header; and the signature.
    pub fn signed(&self) -> (String, String) {
        let hash = self.content_sha256.clone().unwrap_or_else(|| hex(&Sha256::digest(&self.body)));
        let time = basic_time(self.time);
        let mut headers = self.headers.clone();
        headers.push((String::from("x-amz-content-sha256"), hash.clone()));
        headers.push((String::from("x-amz-date"), time.clone()));
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let signature = self.signature(&self.query, &headers, &names, &hash, &time);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{}/{REGION}/s3/aws4_request, SignedHeaders={names}, Signature={signature}",
            self.access_key,
            &time[..8]
        );
        let more = [("x-amz-content-sha256", hash.as_str()), ("x-amz-date", &time), ("authorization", &authorization)];
        (self.head(&more), signature)
    }

    /// The head of a presigned request.
    pub fn presigned(&self, expires: u64) -> String {
        let time = basic_time(self.time);
        let mut pairs: Vec<String> = self.query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        pairs.push(String::from("X-Amz-Algorithm=AWS4-HMAC-SHA256"));
        pairs.push(format!("X-Amz-Credential={}%2F{}%2F{REGION}%2Fs3%2Faws4_request", self.access_key, &time[..8]));
        pairs.push(format!("X-Amz-Date={time}"));
        pairs.push(format!("X-Amz-Expires={expires}"));
        pairs.push(String::from("X-Amz-SignedHeaders=host"));
        let query = pairs.join("&");
        let host: Vec<_> = self.headers.iter().filter(|(name, _)| name == "host").cloned().collect();
        let signature = self.signature(&query, &host, "host", "UNSIGNED-PAYLOAD", &time);
        let signed = Request { query: format!("{query}&X-Amz-Signature={signature}"), ..self.clone() };
        signed.head(&[])
    }

    fn signature(&self, query: &str, headers: &[(String, String)], names: &str, hash: &str, time: &str) -> String {
        let mut pairs: Vec<String> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
            .collect();
        pairs.sort();
        let mut sorted = headers.to_vec();
        sorted.sort();
        let lines: String = sorted.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!("{}\n{}\n{}\n{lines}\n{names}\n{hash}", self.method, self.path, pairs.join("&"));
        let day = &time[..8];
        let scope = format!("{day}/{REGION}/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        hex(&mac(&self.signing_key(day), text.as_bytes()))
    }

    pub fn signing_key(&self, day: &str) -> Vec<u8> {
        let key = mac(format!("AWS4{}", self.secret).as_bytes(), day.as_bytes());
        mac(&mac(&mac(&key, REGION.as_bytes()), b"s3"), b"aws4_request")
    }

    fn head(&self, more: &[(&str, &str)]) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("?{}", self.query) };
        let mut head = format!("{} {}{query} HTTP/1.1", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("\r\n{name}: {value}"));
        }
        for (name, value) in more {
            head.push_str(&format!("\r\n{name}: {value}"));
        }
        let has_length = self.headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding");
        if !has_length && (!self.body.is_empty() || self.method == "PUT" || self.method == "POST") {
            head.push_str(&format!("\r\ncontent-length: {}", self.body.len()));
        }
        head
    }
}

pub fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[expect(clippy::disallowed_methods, reason = "a client outside of the system has a clock of its own")]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// `YYYYMMDDThhmmssZ`.
pub fn basic_time(seconds: u64) -> String {
    let days = seconds / 86_400;
    let (mut year, mut day) = (1970, days);
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let rest = seconds % 86_400;
    format!("{year:04}{:02}{:02}T{:02}{:02}{:02}Z", month + 1, day + 1, rest / 3600, rest / 60 % 60, rest % 60)
}
