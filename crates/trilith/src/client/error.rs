//! An answer that is an error, in the server's words, with what to do where that is known.

use super::Call;
use super::xml::element;
use std::fmt;

/// What the server refused, and why.
#[derive(Debug, Clone)]
pub struct S3Error {
    /// `bucket/key`, `bucket`, or nothing.
    pub subject: String,
    /// S3's code; empty when the answer had none.
    pub code: String,
    pub message: String,
}

impl S3Error {
    pub fn of(status: u16, xml: &str, call: &Call<'_>) -> S3Error {
        let subject = if call.key.is_empty() { call.bucket.to_owned() } else { format!("{}/{}", call.bucket, call.key) };
        let code = element(xml, "Code").unwrap_or_default();
        let message = element(xml, "Message").unwrap_or_else(|| match status {
            403 => "access denied".to_owned(),
            404 => "not found".to_owned(),
            status => format!("the server answered with HTTP status {status}"),
        });
        S3Error { subject, code, message }
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.code.as_str() {
            "InvalidAccessKeyId" => {
                "no such access key: check --access-key or TRILITH_ROOT_USER; the data folder's `credentials` file is not valid \
                 while the server's settings name another pair"
            }
            "SignatureDoesNotMatch" => "the secret key is wrong: check --secret-key or TRILITH_ROOT_PASSWORD",
            "RequestTimeTooSkewed" => "set this machine's clock",
            "NoSuchBucket" => "`trilith bucket ls` shows what is there; `trilith bucket make NAME` makes one",
            "BucketNotEmpty" => "empty it first: trilith object rm --recursive BUCKET",
            "AccessDenied" => "give credentials, or allow it with `trilith bucket policy set`",
            "AuthorizationHeaderMalformed" => "is --region the server's region?",
            _ => return None,
        })
    }
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.message)?;
        if !self.code.is_empty() {
            write!(f, " ({})", self.code)?;
        }
        match self.advice() {
            Some(advice) => write!(f, "\n  {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for S3Error {}
