//! Who a request says that it is from, read and checked for form before anything else looks at it.

use std::borrow::Cow;

use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue};

use super::ALGORITHM;
use super::time::{basic_time_of, seconds_of_basic_time};
use crate::config::MAX_PRESIGNED_SECONDS;
use crate::dates::seconds_of_http_date;
use crate::failure::{
    ACCESS_DENIED, AUTHORIZATION_HEADER_MALFORMED, AUTHORIZATION_QUERY_PARAMETERS_ERROR, Failure, INVALID_REQUEST,
};
use crate::query::Query;

/// A signature and what it is said to cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<'a> {
    pub access_key: Cow<'a, str>,
    /// `YYYYMMDD`.
    pub day: Cow<'a, str>,
    pub region: Cow<'a, str>,
    /// Names in lower case, joined by `;`.
    pub signed_headers: Cow<'a, str>,
    /// 64 hexadecimal digits.
    pub signature: Cow<'a, str>,
    /// `YYYYMMDDThhmmssZ`.
    pub time: Cow<'a, str>,
    pub presigned: Option<Presigned>,
}

/// What only a presigned URL says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presigned {
    pub expires_seconds: u64,
}

const SIGV2_REFUSED: &str = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
const TWO_MECHANISMS: &str = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the Authorization header should be specified";
const NO_DATE: &str = "AWS authentication requires a valid Date or x-amz-date header";
/// Query parameters with which a query is a claim; the last two are of Signature Version 2.
const CLAIMING: [&str; 4] = ["X-Amz-Algorithm", "X-Amz-Signature", "Signature", "AWSAccessKeyId"];
const SERVICE: &str = "s3";
const TERMINATOR: &str = "aws4_request";

/// Reads a request's claim; `None` for an anonymous request.
///
/// The query is the decoded one, as the library reads it: a claim whose names are written in escapes is a claim all the same, and would be
/// verified there without anybody having asked what it covers.
pub fn claim_of<'a>(headers: &'a HeaderMap, query: &Query<'a>, region: &str) -> Result<Option<Claim<'a>>, Failure> {
    let header = headers.get(AUTHORIZATION);
    match (header, is_claim(query)) {
        (None, false) => Ok(None),
        (Some(header), true) => Err(Failure::argument(TWO_MECHANISMS, "Authorization", kind_of(header))),
        (Some(header), false) => from_header(header, headers, region).map(Some),
        (None, true) => from_query(query, region).map(Some),
    }
}

/// Whether a query says who it is from.
pub fn is_claim(query: &Query<'_>) -> bool {
    query.has_any(&CLAIMING)
}

fn from_header<'a>(header: &'a HeaderValue, headers: &'a HeaderMap, region: &str) -> Result<Claim<'a>, Failure> {
    let malformed = |what: &str| {
        let message = format!("The authorization header is malformed; {what}");
        Failure::with(AUTHORIZATION_HEADER_MALFORMED, message)
    };
    let text = header.to_str().map_err(|_| malformed("it is not ASCII."))?;
    if text.starts_with("AWS ") {
        return Err(Failure::with(INVALID_REQUEST, SIGV2_REFUSED));
    }
    let Some(fields) = text.strip_prefix(ALGORITHM) else {
        return Err(Failure::argument("Unsupported Authorization Type", "Authorization", kind_of(header)));
    };
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for field in fields.split(',') {
        let (name, value) = field.trim().split_once('=').ok_or_else(|| malformed("a field has no value."))?;
        let place = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return Err(malformed("it has an unknown field.")),
        };
        if place.replace(value).is_some() {
            return Err(malformed("a field is repeated."));
        }
    }
    let credential = credential.ok_or_else(|| malformed("the Credential is missing."))?;
    let signed_headers = signed_headers.ok_or_else(|| malformed("the SignedHeaders are missing."))?;
    let signature = signature.ok_or_else(|| malformed("the Signature is missing."))?;
    let scope = scope(Cow::Borrowed(credential), region).map_err(|what| wrong(malformed(&what.message), what))?;
    if !is_signature(signature) {
        return Err(malformed("the Signature is not 64 hexadecimal digits."));
    }
    let time = time_of(headers).ok_or(Failure::with(ACCESS_DENIED, NO_DATE))?;
    check_day(&time, &scope.day).map_err(malformed)?;
    Ok(Claim {
        access_key: scope.access_key,
        day: scope.day,
        region: scope.region,
        signed_headers: Cow::Borrowed(signed_headers),
        signature: Cow::Borrowed(signature),
        time,
        presigned: None,
    })
}

/// The mechanism that a header names, without what it carries.
fn kind_of(header: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(header.as_bytes());
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn from_query<'a>(query: &Query<'a>, region: &str) -> Result<Claim<'a>, Failure> {
    let malformed = |what: &str| Failure::with(AUTHORIZATION_QUERY_PARAMETERS_ERROR, what.to_owned());
    let mut fields = QueryFields::default();
    for (name, value) in query.pairs() {
        let place = match name.as_ref() {
            "X-Amz-Algorithm" => &mut fields.algorithm,
            "X-Amz-Credential" => &mut fields.credential,
            "X-Amz-Date" => &mut fields.date,
            "X-Amz-Expires" => &mut fields.expires,
            "X-Amz-SignedHeaders" => &mut fields.signed_headers,
            "X-Amz-Signature" => &mut fields.signature,
            "Signature" | "AWSAccessKeyId" => return Err(Failure::with(INVALID_REQUEST, SIGV2_REFUSED)),
            _ => continue,
        };
        if place.replace(value.clone()).is_some() {
            return Err(malformed("A query parameter of the signature is repeated."));
        }
    }
    let QueryFields {
        algorithm: Some(algorithm),
        credential: Some(credential),
        date: Some(date),
        expires: Some(expires),
        signed_headers: Some(signed_headers),
        signature: Some(signature),
    } = fields
    else {
        return Err(malformed(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
        ));
    };
    if algorithm != ALGORITHM {
        return Err(malformed("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    let expires_seconds = expires_seconds(&expires).map_err(malformed)?;
    let scope = scope(credential, region).map_err(|what| {
        let message = format!("Error parsing the X-Amz-Credential parameter; {}", what.message);
        wrong(malformed(&message), what)
    })?;
    if !is_signature(&signature) {
        return Err(malformed("X-Amz-Signature is not 64 hexadecimal digits."));
    }
    if seconds_of_basic_time(&date).is_none() {
        return Err(malformed("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""));
    }
    check_day(&date, &scope.day).map_err(malformed)?;
    Ok(Claim {
        access_key: scope.access_key,
        day: scope.day,
        region: scope.region,
        signed_headers,
        signature,
        time: date,
        presigned: Some(Presigned { expires_seconds }),
    })
}

#[derive(Default)]
struct QueryFields<'a> {
    algorithm: Option<Cow<'a, str>>,
    credential: Option<Cow<'a, str>>,
    date: Option<Cow<'a, str>>,
    expires: Option<Cow<'a, str>>,
    signed_headers: Option<Cow<'a, str>>,
    signature: Option<Cow<'a, str>>,
}

fn expires_seconds(text: &str) -> Result<u64, &'static str> {
    if text.starts_with('-') {
        return Err("X-Amz-Expires must be non-negative");
    }
    let seconds: u64 = text.parse().map_err(|_| "X-Amz-Expires should be a number")?;
    if seconds > MAX_PRESIGNED_SECONDS {
        return Err(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        );
    }
    Ok(seconds)
}

/// `access key/day/region/s3/aws4_request`.
struct Scope<'a> {
    access_key: Cow<'a, str>,
    day: Cow<'a, str>,
    region: Cow<'a, str>,
}

struct WrongScope {
    message: String,
    /// The region that a client should have named, so that it can do so.
    expected_region: Option<String>,
}

fn wrong(failure: Failure, scope: WrongScope) -> Failure {
    match scope.expected_region {
        None => failure,
        Some(region) => failure.detail("Region", region),
    }
}

fn scope<'a>(credential: Cow<'a, str>, expected_region: &str) -> Result<Scope<'a>, WrongScope> {
    let wrong = |message: String| WrongScope { message, expected_region: None };
    // Split from the right: an access key may hold slashes, the rest cannot.
    let ends: Vec<usize> = credential.rmatch_indices('/').map(|(at, _)| at).take(4).collect();
    let &[terminator_at, service_at, region_at, day_at] = ends.as_slice() else {
        return Err(wrong(String::from(
            "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
        )));
    };
    if &credential[terminator_at + 1..] != TERMINATOR {
        return Err(wrong(String::from("incorrect terminal. This endpoint uses \"aws4_request\".")));
    }
    let service = &credential[service_at + 1..terminator_at];
    if service != SERVICE {
        return Err(wrong(format!("incorrect service \"{service}\". This endpoint belongs to \"{SERVICE}\".")));
    }
    let day = &credential[day_at + 1..region_at];
    if day.len() != 8 || !day.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong(format!(
            "incorrect date format \"{day}\". This date in the credential must be in the format \"yyyyMMdd\"."
        )));
    }
    let region = &credential[region_at + 1..service_at];
    if region != expected_region {
        let message = format!("the region '{region}' is wrong; expecting '{expected_region}'");
        return Err(WrongScope { message, expected_region: Some(expected_region.to_owned()) });
    }
    if day_at == 0 {
        return Err(wrong(String::from("the access key is empty.")));
    }
    Ok(match credential {
        Cow::Borrowed(text) => Scope {
            access_key: Cow::Borrowed(&text[..day_at]),
            day: Cow::Borrowed(&text[day_at + 1..region_at]),
            region: Cow::Borrowed(&text[region_at + 1..service_at]),
        },
        Cow::Owned(text) => Scope {
            access_key: Cow::Owned(text[..day_at].to_owned()),
            day: Cow::Owned(text[day_at + 1..region_at].to_owned()),
            region: Cow::Owned(text[region_at + 1..service_at].to_owned()),
        },
    })
}

fn is_signature(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// When a request says that it was signed: `x-amz-date`, or else `Date`, in the same form or as an HTTP date.
fn time_of(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let text = match headers.get("x-amz-date") {
        Some(value) => value.to_str().ok()?,
        None => {
            let date = headers.get(DATE)?.to_str().ok()?;
            if let Some(seconds) = seconds_of_http_date(date) {
                return Some(Cow::Owned(basic_time_of(seconds)));
            }
            date
        }
    };
    seconds_of_basic_time(text).map(|_| Cow::Borrowed(text))
}

fn check_day(time: &str, day: &str) -> Result<(), &'static str> {
    if !time.starts_with(day) {
        return Err("Invalid credential date. Date is not the same as X-Amz-Date.");
    }
    Ok(())
}
