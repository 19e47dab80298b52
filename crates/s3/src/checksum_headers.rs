//! What requests say of checksums. The rule: a checksum that a client sends is compared or refused, never passed over; and so is what
//! says which one it is.
//!
//! | header | where | what it must be |
//! |---|---|---|
//! | `x-amz-checksum-ALGORITHM` | content, documents, Complete | one at most, of a known algorithm, and right |
//! | `x-amz-trailer` | content in `aws-chunked` | the name of one such header, which follows the body; nothing else does |
//! | `x-amz-sdk-checksum-algorithm` | where one of the former is | the algorithm of that |
//! | `x-amz-checksum-algorithm` | PUT, copies, CreateMultipartUpload | what to compute; beside a value, the algorithm of that |
//! | `x-amz-checksum-type` | CreateMultipartUpload, Complete | FULL_OBJECT or COMPOSITE, as the upload is |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use format::attributes::{Checksum, ChecksumAlgorithm, ChecksumScheme, ChecksumType};
use http::{HeaderMap, HeaderName};
use object::{ChecksumWish, DEFAULT_CHECKSUM, Trailer, TrailerFault};

use crate::failure::{Failure, INVALID_REQUEST};
use crate::payload::Trailers;
use crate::request_headers::text;

/// How the names of most of them begin.
pub const PREFIX: &str = "x-amz-checksum-";
const ALGORITHM: &str = "x-amz-checksum-algorithm";
const MODE: &str = "x-amz-checksum-mode";
const TYPE: &str = "x-amz-checksum-type";
const TRAILER: &str = "x-amz-trailer";

/// SDKs name the algorithm of the checksum that they send.
pub const SDK_ALGORITHM: &str = "x-amz-sdk-checksum-algorithm";

const SEVERAL: &str = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.";

/// The header of an algorithm.
pub fn header_of(algorithm: ChecksumAlgorithm) -> HeaderName {
    HeaderName::from_static(name_of(algorithm))
}

const fn name_of(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
        ChecksumAlgorithm::Crc32c => "x-amz-checksum-crc32c",
        ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
        ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
        ChecksumAlgorithm::Sha512 => "x-amz-checksum-sha512",
        ChecksumAlgorithm::Md5 => "x-amz-checksum-md5",
        ChecksumAlgorithm::XxHash64 => "x-amz-checksum-xxhash64",
        ChecksumAlgorithm::XxHash3 => "x-amz-checksum-xxhash3",
        ChecksumAlgorithm::XxHash128 => "x-amz-checksum-xxhash128",
    }
}

/// The algorithm of a header that carries a value.
pub fn algorithm_of(name: &str) -> Option<ChecksumAlgorithm> {
    let is_one = name.starts_with(PREFIX);
    ChecksumAlgorithm::ALL.into_iter().find(|algorithm| is_one && name_of(*algorithm) == name)
}

/// Refuses a header that begins like those of checksums and is not known: it would be passed over.
pub fn check_known(name: &str) -> Result<(), Failure> {
    if matches!(name, ALGORITHM | MODE | TYPE) || algorithm_of(name).is_some() {
        return Ok(());
    }
    let message = "The algorithm type you specified in x-amz-checksum- header is invalid.";
    Err(Failure::with(INVALID_REQUEST, message).detail("Header", name))
}

/// The checksum of content or a document that was given beforehand.
pub fn given(headers: &HeaderMap) -> Result<Option<Checksum>, Failure> {
    let found = the_one(headers)?;
    let parsed = found.map(|(algorithm, value)| parse(algorithm, value).ok_or_else(|| invalid(name_of(algorithm))));
    let given = parsed.transpose()?;
    check_named(headers, given.map(|given| given.algorithm()))?;
    Ok(given)
}

/// The checksum of the object that Complete makes; a composite one perhaps with its number of parts.
pub fn given_of_object(headers: &HeaderMap) -> Result<Option<(Checksum, Option<u16>)>, Failure> {
    let Some((algorithm, value)) = the_one(headers)? else { return Ok(None) };
    check_named(headers, Some(algorithm))?;
    let refuse = || invalid(name_of(algorithm));
    let text = std::str::from_utf8(value).map_err(|_| refuse())?;
    let (digits, parts) = match text.split_once('-') {
        None => (text, None),
        Some((digits, parts)) => (digits, Some(parts.parse().map_err(|_| refuse())?)),
    };
    Ok(Some((parse(algorithm, digits.as_bytes()).ok_or_else(refuse)?, parts)))
}

fn the_one(headers: &HeaderMap) -> Result<Option<(ChecksumAlgorithm, &[u8])>, Failure> {
    let mut found = headers.iter().filter_map(|(name, value)| Some((algorithm_of(name.as_str())?, value.as_bytes())));
    match (found.next(), found.next()) {
        (one, None) => Ok(one),
        (_, Some(_)) => Err(Failure::with(INVALID_REQUEST, SEVERAL)),
    }
}

/// What names the algorithm must agree with what was sent.
fn check_named(headers: &HeaderMap, sent: Option<ChecksumAlgorithm>) -> Result<(), Failure> {
    let Some(named) = text(headers, SDK_ALGORITHM) else { return Ok(()) };
    let named = algorithm(named)?;
    match sent {
        Some(sent) if sent == named => Ok(()),
        Some(_) => Err(invalid(SDK_ALGORITHM)),
        None => Err(Failure::with(
            INVALID_REQUEST,
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        )),
    }
}

fn invalid(header: &str) -> Failure {
    Failure::with(INVALID_REQUEST, format!("Value for {header} header is invalid."))
}

/// Which checksum a client wants of its content: given beforehand, to follow, or only named.
pub fn wish(headers: &HeaderMap, trailers: Option<Trailers>) -> Result<ChecksumWish, Failure> {
    // One look at the names is cheaper than to ask for each header that is usually absent.
    let is_about_checksums = |name: &str| name.starts_with("x-amz-") && (name.contains("-checksum-") || name == TRAILER);
    if !headers.keys().any(|name| is_about_checksums(name.as_str())) {
        return Ok(ChecksumWish::None);
    }
    let announced = announced_trailer(headers, trailers)?;
    let wish = match (the_one(headers)?, announced) {
        (Some(_), Some(_)) => return Err(Failure::with(INVALID_REQUEST, SEVERAL)),
        (None, Some((algorithm, trailer))) => {
            check_named(headers, Some(algorithm))?;
            ChecksumWish::Trailing(algorithm, trailer)
        }
        (_, None) => given(headers)?.map_or(ChecksumWish::None, ChecksumWish::Given),
    };
    let asked = text(headers, ALGORITHM).map(algorithm).transpose()?;
    match (wish.algorithm(), asked) {
        (Some(sent), Some(asked)) if sent != asked => Err(invalid(ALGORITHM)),
        (None, Some(asked)) => Ok(ChecksumWish::Compute(asked)),
        _ => Ok(wish),
    }
}

/// What a client says that follows the body, and how to read it then.
fn announced_trailer(headers: &HeaderMap, trailers: Option<Trailers>) -> Result<Option<(ChecksumAlgorithm, Trailer)>, Failure> {
    let Some(name) = announced(headers) else { return Ok(None) };
    let Some(algorithm) = algorithm_of(&name) else {
        return Err(Failure::with(INVALID_REQUEST, "The value specified in the x-amz-trailer header is not supported"));
    };
    let Some(trailers) = trailers else {
        return Err(Failure::with(INVALID_REQUEST, "x-amz-trailer is given, but the body has no trailing headers"));
    };
    let trailer: Trailer = Box::new(move || {
        let value = trailers.get(name_of(algorithm)).ok_or(TrailerFault::Missing)?;
        parse(algorithm, value.as_bytes()).ok_or(TrailerFault::Invalid)
    });
    Ok(Some((algorithm, trailer)))
}

/// The trailing header that a request announces, in lower case.
pub fn announced(headers: &HeaderMap) -> Option<String> {
    Some(text(headers, TRAILER)?.trim().to_ascii_lowercase())
}

/// A checksum of content from its text.
pub fn parse(algorithm: ChecksumAlgorithm, text: &[u8]) -> Option<Checksum> {
    Checksum::new(algorithm, ChecksumType::FullObject, &BASE64.decode(text).ok()?)
}

/// An algorithm by the name that requests give it.
pub fn algorithm(name: &str) -> Result<ChecksumAlgorithm, Failure> {
    let found = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        Failure::with(
            INVALID_REQUEST,
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]",
        )
    })
}

/// The algorithm that `x-amz-checksum-algorithm` names.
pub fn asked_algorithm(headers: &HeaderMap) -> Result<Option<ChecksumAlgorithm>, Failure> {
    text(headers, ALGORITHM).map(algorithm).transpose()
}

/// Whether `x-amz-checksum-type` names the content, or the parts' checksums.
pub fn is_full_object(headers: &HeaderMap) -> Result<Option<bool>, Failure> {
    let Some(kind) = headers.get(TYPE) else { return Ok(None) };
    match kind.as_bytes() {
        kind if kind.eq_ignore_ascii_case(b"FULL_OBJECT") => Ok(Some(true)),
        kind if kind.eq_ignore_ascii_case(b"COMPOSITE") => Ok(Some(false)),
        _ => Err(invalid(TYPE)),
    }
}

/// What the object of a new upload will carry. Without a type, CRC64NVME covers the object and the others their parts (S3).
pub fn of_upload(headers: &HeaderMap) -> Result<Option<ChecksumScheme>, Failure> {
    let full_object = is_full_object(headers)?;
    let Some(algorithm) = asked_algorithm(headers)? else {
        return match full_object {
            None => Ok(None),
            Some(_) => Err(Failure::with(
                INVALID_REQUEST,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.",
            )),
        };
    };
    Ok(Some(ChecksumScheme { algorithm, full_object: full_object.unwrap_or(algorithm == DEFAULT_CHECKSUM) }))
}

/// Refuses a checksum of content in a request that carries none, but makes some: a copy.
pub fn check_no_content(headers: &HeaderMap) -> Result<(), Failure> {
    check_no_trailer(headers)?;
    match given(headers)? {
        None => Ok(()),
        Some(_) => Err(Failure::with(INVALID_REQUEST, "A copy takes x-amz-checksum-algorithm, and no checksum of content.")),
    }
}

/// Refuses a trailing checksum of what no trailer is read of.
pub fn check_no_trailer(headers: &HeaderMap) -> Result<(), Failure> {
    match headers.contains_key(TRAILER) {
        false => Ok(()),
        true => Err(Failure::with(INVALID_REQUEST, "The x-amz-trailer header is for the content of objects and parts.")),
    }
}

#[cfg(test)]
mod tests;
