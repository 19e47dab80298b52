//! What a request is about: nothing, a bucket, or a key in a bucket; by path or by host name.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;
use http::header::HOST;
use percent_encoding::percent_decode_str;
use types::limits::MAX_KEY_BYTES;

use crate::failure::{Failure, INVALID_URI, KEY_TOO_LONG};

/// A request's bucket and key, decoded; empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    pub bucket: Cow<'a, str>,
    pub key: Cow<'a, str>,
}

impl<'a> Target<'a> {
    /// Reads the path, and the host name if it is one below `domain` (virtual-host style).
    pub fn of(path: &'a str, headers: &'a HeaderMap, domain: Option<&str>) -> Result<Target<'a>, Failure> {
        let path = decode(path)?;
        let bucket = domain.and_then(|domain| bucket_of_host(headers, domain));
        let target = match bucket {
            Some(bucket) => Target { bucket, key: without_slash(path)? },
            None => split(without_slash(path)?),
        };
        if target.key.len() > MAX_KEY_BYTES {
            return Err(Failure::new(KEY_TOO_LONG)
                .detail("Size", target.key.len().to_string())
                .detail("MaxSizeAllowed", MAX_KEY_BYTES.to_string()));
        }
        Ok(target)
    }
}

/// The bucket that a host name means: what stands before `.domain`. Names that are not below the domain, and addresses, mean
/// no bucket.
pub fn bucket_of_host<'a>(headers: &'a HeaderMap, domain: &str) -> Option<Cow<'a, str>> {
    bucket_of_name(headers.get(HOST)?.to_str().ok()?, domain)
}

/// As [`bucket_of_host`], for the text of a Host header.
pub fn bucket_of_name<'a>(host: &'a str, domain: &str) -> Option<Cow<'a, str>> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    if name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let before = name.len().checked_sub(domain.len())?;
    let (bucket, tail) = (name.get(..before)?, name.get(before..)?);
    if !tail.eq_ignore_ascii_case(domain) {
        return None;
    }
    let bucket = bucket.strip_suffix('.').filter(|bucket| !bucket.is_empty())?;
    // Names of hosts have no case, and names of buckets no capitals.
    let has_capitals = bucket.bytes().any(|letter| letter.is_ascii_uppercase());
    Some(if has_capitals { Cow::Owned(bucket.to_ascii_lowercase()) } else { Cow::Borrowed(bucket) })
}

/// Percent-decoded text, in which every `%` must begin an escape.
pub fn decode(path: &str) -> Result<Cow<'_, str>, Failure> {
    if !path.contains('%') {
        return Ok(Cow::Borrowed(path));
    }
    let mut escapes = path.as_bytes();
    while let Some(at) = memchr::memchr(b'%', escapes) {
        let [high, low, ..] = &escapes[at + 1..] else { return Err(INVALID_URI.into()) };
        if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() {
            return Err(INVALID_URI.into());
        }
        escapes = &escapes[at + 3..];
    }
    percent_decode_str(path).decode_utf8().map_err(|_| INVALID_URI.into())
}

fn without_slash(path: Cow<'_, str>) -> Result<Cow<'_, str>, Failure> {
    match path {
        Cow::Borrowed(path) => path.strip_prefix('/').map(Cow::Borrowed),
        Cow::Owned(path) => path.strip_prefix('/').map(|path| Cow::Owned(path.to_owned())),
    }
    .ok_or_else(|| INVALID_URI.into())
}

fn split(path: Cow<'_, str>) -> Target<'_> {
    match path {
        Cow::Borrowed(path) => {
            let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
            Target { bucket: Cow::Borrowed(bucket), key: Cow::Borrowed(key) }
        }
        Cow::Owned(path) => {
            let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
            Target { bucket: Cow::Owned(bucket.to_owned()), key: Cow::Owned(key.to_owned()) }
        }
    }
}

#[cfg(test)]
mod tests;
