//! Headers that ask for what is not there. A promise that is answered with success and then forgotten is worse than an error, so each
//! header is either obeyed by its operation, states what holds here anyway, or is refused. `docs/semantics.md` has the table.

use http::header::CONTENT_RANGE;
use http::{HeaderMap, Method};

use crate::checksum_headers;
use crate::failure::{ACL_NOT_SUPPORTED, Failure, INVALID_ARGUMENT, INVALID_TOKEN, NOT_IMPLEMENTED};
use crate::query::Query;

const AMZ: &str = "x-amz-";
const METADATA: &str = "x-amz-meta-";
const ACL: &str = "x-amz-acl";
const GRANT: &str = "x-amz-grant-";
const TOKEN: &str = "x-amz-security-token";

/// Access control lists by name that say what holds without any: the bucket's owner has everything.
const ACLS_THAT_HOLD: [&str; 2] = ["private", "bucket-owner-full-control"];

/// Those that would give rights to others.
const OTHER_ACLS: [&str; 6] =
    ["public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read", "log-delivery-write"];

/// Permissions that a grant header can name.
const GRANTED: [&str; 5] = ["full-control", "read", "read-acp", "write", "write-acp"];

/// How a grant names its grantee.
const GRANTEES: [&str; 3] = ["id", "uri", "emailAddress"];

/// Headers that only say something with some of their values.
struct Choice {
    header: &'static str,
    /// What holds here, or changes nothing.
    holds: &'static [&'static str],
    /// What S3 knows and is not there.
    not_there: &'static [&'static str],
}

const CHOICES: [Choice; 7] = [
    Choice {
        header: "x-amz-object-ownership",
        holds: &["BucketOwnerEnforced"],
        not_there: &["BucketOwnerPreferred", "ObjectWriter"],
    },
    Choice { header: "x-amz-bucket-object-lock-enabled", holds: &["false"], not_there: &["true"] },
    Choice { header: "x-amz-server-side-encryption-bucket-key-enabled", holds: &["false"], not_there: &["true"] },
    // The owner of a bucket pays for everything, and no object is locked or archived.
    Choice { header: "x-amz-request-payer", holds: &["requester"], not_there: &[] },
    Choice { header: "x-amz-bypass-governance-retention", holds: &["true", "false"], not_there: &[] },
    Choice { header: "x-amz-confirm-remove-self-bucket-access", holds: &["true", "false"], not_there: &[] },
    Choice { header: "x-amz-optional-object-attributes", holds: &["RestoreStatus"], not_there: &[] },
];

/// Headers that ask for what is not there, whatever they say.
const NOT_THERE: [&str; 17] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    "x-amz-mfa",
    "x-amz-write-offset-bytes",
    "x-amz-if-match-size",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-initiated-time",
];

/// Headers that an operation reads, that the signature reads, or that say nothing of what is asked for.
const UNDERSTOOD: [&str; 25] = [
    "x-amz-cf-id",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-copy-source-range",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-max-parts",
    "x-amz-metadata-directive",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-website-redirect-location",
];

/// Refuses a request that can be obeyed only in part.
pub fn check(method: &Method, headers: &HeaderMap) -> Result<(), Failure> {
    let changes_something = !matches!(*method, Method::GET | Method::HEAD);
    // A part of an object that is stored as the whole is another object (RFC 9110, section 14.4).
    if changes_something && headers.contains_key(CONTENT_RANGE) {
        return Err(not_there("content-range"));
    }
    for (name, value) in headers {
        let name = name.as_str();
        if !name.starts_with(AMZ) || UNDERSTOOD.contains(&name) || name.starts_with(METADATA) {
            continue;
        }
        check_header(name, &String::from_utf8_lossy(value.as_bytes()), changes_something)?;
    }
    Ok(())
}

/// Refuses a write that asks for something beside what is `known`: `DELETE /bucket?metadataConfiguration` is not about the bucket. S3 adds such
/// parts each year, so whatever is not known is one.
pub fn check_query(query: &Query<'_>, known: &[&str]) -> Result<(), Failure> {
    let is_known = |name: &str| {
        name == "x-id" || known.contains(&name) || name.get(..AMZ.len()).is_some_and(|start| start.eq_ignore_ascii_case(AMZ))
    };
    match query.pairs().iter().find(|(name, _)| !is_known(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("The query parameter {name} implies functionality that is not implemented.");
            Err(Failure::with(NOT_IMPLEMENTED, message).detail("ParameterName", name.clone()))
        }
    }
}

/// Refuses a version where an operation has no use for one.
pub fn check_no_version(query: &Query<'_>) -> Result<(), Failure> {
    match query.get("versionId") {
        None => Ok(()),
        Some(version) => Err(Failure::argument("This operation does not accept a version-id.", "versionId", version)),
    }
}

fn check_header(name: &str, value: &str, changes_something: bool) -> Result<(), Failure> {
    if name == ACL {
        return check_acl(value);
    }
    if let Some(permission) = name.strip_prefix(GRANT)
        && GRANTED.contains(&permission)
    {
        return check_grant(name, value);
    }
    if name.starts_with(checksum_headers::PREFIX) {
        return checksum_headers::check_known(name);
    }
    if let Some(choice) = CHOICES.iter().find(|choice| choice.header == name) {
        return choice.check(value);
    }
    if name == TOKEN {
        return Err(Failure::new(INVALID_TOKEN).detail("Token-0", value));
    }
    // A read is given what it asks for, whatever else it says. A write could be without what was meant.
    if NOT_THERE.contains(&name) || changes_something {
        return Err(not_there(name));
    }
    Ok(())
}

/// The answer to a header that asks for what is not there.
pub fn not_there(header: &str) -> Failure {
    Failure::with(NOT_IMPLEMENTED, format!("The header {header} asks for what is not implemented.")).detail("Header", header)
}

fn check_acl(value: &str) -> Result<(), Failure> {
    if ACLS_THAT_HOLD.contains(&value) {
        return Ok(());
    }
    if OTHER_ACLS.contains(&value) {
        return Err(ACL_NOT_SUPPORTED.into());
    }
    Err(Failure::argument(INVALID_ARGUMENT.message, ACL, value))
}

/// `id="…", uri="…"`.
fn check_grant(name: &str, value: &str) -> Result<(), Failure> {
    let is_grantee = |text: &str| {
        let Some((kind, grantee)) = text.trim().split_once('=') else { return false };
        GRANTEES.iter().any(|known| known.eq_ignore_ascii_case(kind.trim())) && !grantee.trim().trim_matches('"').is_empty()
    };
    if value.split(',').all(is_grantee) {
        return Err(ACL_NOT_SUPPORTED.into());
    }
    Err(Failure::argument("Argument format not recognized", name, value))
}

impl Choice {
    fn check(&self, value: &str) -> Result<(), Failure> {
        let is_one_of = |values: &[&str]| values.iter().any(|one| one.eq_ignore_ascii_case(value));
        if is_one_of(self.holds) {
            return Ok(());
        }
        if is_one_of(self.not_there) {
            return Err(not_there(self.header));
        }
        Err(Failure::argument(INVALID_ARGUMENT.message, self.header, value))
    }
}
