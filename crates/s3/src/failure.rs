//! S3's errors: code, HTTP status and words, and how they are shown.
//!
//! The table is the only place that knows which code has which status. Errors that the S3 library makes are looked up here
//! as well, so that both ways through this crate answer alike.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::response::ResponseBody;
use crate::xml::Xml;

/// One S3 error code.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    pub name: &'static str,
    pub status: u16,
    /// What is said if nothing more exact is known.
    pub message: &'static str,
}

/// A request that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: &'static Code,
    message: Option<Cow<'static, str>>,
    /// Elements beside Code and Message.
    details: Vec<(&'static str, String)>,
    /// Headers of the answer, beside those of every error.
    headers: Vec<(HeaderName, HeaderValue)>,
}

macro_rules! codes {
    ($($constant:ident = $name:literal, $status:literal, $message:literal;)*) => {
        $(pub const $constant: &Code = &Code { name: $name, status: $status, message: $message };)*

        const ALL: &[&Code] = &[$($constant),*];
    };
}

codes! {
    ACL_NOT_SUPPORTED = "AccessControlListNotSupported", 400, "The bucket does not allow ACLs";
    ACCESS_DENIED = "AccessDenied", 403, "Access Denied";
    AUTHORIZATION_HEADER_MALFORMED = "AuthorizationHeaderMalformed", 400, "The authorization header that you provided is not valid.";
    AUTHORIZATION_QUERY_PARAMETERS_ERROR = "AuthorizationQueryParametersError", 400, "The authorization query parameters that you provided are not valid.";
    BAD_DIGEST = "BadDigest", 400, "The Content-MD5 or checksum value that you specified did not match what the server received.";
    BAD_REQUEST = "BadRequest", 400, "An error occurred when parsing the HTTP request.";
    BUCKET_ALREADY_EXISTS = "BucketAlreadyExists", 409, "The requested bucket name is not available. Please select a different name and try again.";
    BUCKET_ALREADY_OWNED_BY_YOU = "BucketAlreadyOwnedByYou", 409, "Your previous request to create the named bucket succeeded and you already own it.";
    BUCKET_NOT_EMPTY = "BucketNotEmpty", 409, "The bucket that you tried to delete is not empty.";
    CONDITIONAL_REQUEST_CONFLICT = "ConditionalRequestConflict", 409, "A conflicting operation occurred during the processing of the request. Please try again.";
    ENTITY_TOO_LARGE = "EntityTooLarge", 400, "Your proposed upload exceeds the maximum allowed object size.";
    ENTITY_TOO_SMALL = "EntityTooSmall", 400, "Your proposed upload is smaller than the minimum allowed object size.";
    EXPIRED_TOKEN = "ExpiredToken", 400, "The provided token has expired.";
    HTTP_VERSION_NOT_SUPPORTED = "HttpVersionNotSupported", 505, "This server speaks HTTP/1.1, and the client has begun to speak HTTP/2: set the client to HTTP/1.1 (curl: --http1.1).";
    ILLEGAL_LOCATION_CONSTRAINT = "IllegalLocationConstraintException", 400, "The specified location constraint is not this server's region.";
    INCOMPLETE_BODY = "IncompleteBody", 400, "You did not provide the number of bytes specified by the Content-Length HTTP header.";
    INTERNAL_ERROR = "InternalError", 500, "We encountered an internal error. Please try again.";
    INVALID_ACCESS_KEY_ID = "InvalidAccessKeyId", 403, "The access key ID that you provided does not exist in our records.";
    INVALID_ARGUMENT = "InvalidArgument", 400, "Invalid Argument";
    INVALID_BUCKET_ACL = "InvalidBucketAclWithObjectOwnership", 400, "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting";
    INVALID_BUCKET_NAME = "InvalidBucketName", 400, "The specified bucket is not valid.";
    INVALID_CHUNK_SIZE = "InvalidChunkSizeError", 400, "Only the last chunk is allowed to have a size less than 8192 bytes";
    INVALID_DIGEST = "InvalidDigest", 400, "The Content-MD5 or checksum value that you specified is not valid.";
    INVALID_LOCATION_CONSTRAINT = "InvalidLocationConstraint", 400, "The specified location constraint is not valid.";
    INVALID_PART = "InvalidPart", 400, "One or more of the specified parts could not be found. The part might not have been uploaded, or the specified entity tag might not have matched the part's entity tag.";
    INVALID_PART_NUMBER = "InvalidPartNumber", 416, "The requested partnumber is not satisfiable.";
    INVALID_PART_ORDER = "InvalidPartOrder", 400, "The list of parts was not in ascending order. The parts list must be specified in order by part number.";
    INVALID_RANGE = "InvalidRange", 416, "The requested range is not satisfiable";
    INVALID_REDIRECT_LOCATION = "InvalidRedirectLocation", 400, "The website redirect location is not valid.";
    INVALID_REQUEST = "InvalidRequest", 400, "Invalid Request";
    INVALID_STORAGE_CLASS = "InvalidStorageClass", 400, "The storage class that you specified is not valid.";
    INVALID_TAG = "InvalidTag", 400, "The tag provided was not a valid tag.";
    INVALID_TOKEN = "InvalidToken", 400, "The provided token is malformed or otherwise invalid.";
    INVALID_URI = "InvalidURI", 400, "Couldn't parse the specified URI.";
    KEY_TOO_LONG = "KeyTooLongError", 400, "Your key is too long.";
    MALFORMED_ACL = "MalformedACLError", 400, "The XML that you provided was not well formed or did not validate against our published schema.";
    MALFORMED_POLICY = "MalformedPolicy", 400, "This policy contains invalid Json";
    MALFORMED_TRAILER = "MalformedTrailerError", 400, "The request contained trailing data that was not well-formed or did not conform to our published schema.";
    MALFORMED_XML = "MalformedXML", 400, "The XML that you provided was not well formed or did not validate against our published schema.";
    MAX_MESSAGE_LENGTH_EXCEEDED = "MaxMessageLengthExceeded", 400, "Your request was too big.";
    METADATA_TOO_LARGE = "MetadataTooLarge", 400, "Your metadata headers exceed the maximum allowed metadata size.";
    METHOD_NOT_ALLOWED = "MethodNotAllowed", 405, "The specified method is not allowed against this resource.";
    MISSING_CONTENT_LENGTH = "MissingContentLength", 411, "You must provide the Content-Length HTTP header.";
    MISSING_REQUEST_BODY = "MissingRequestBodyError", 400, "Request body is empty.";
    MISSING_SECURITY_HEADER = "MissingSecurityHeader", 400, "Your request is missing a required header.";
    NOT_IMPLEMENTED = "NotImplemented", 501, "A header or query you provided implies functionality that is not implemented.";
    NOT_MODIFIED = "NotModified", 304, "Not Modified";
    NO_SUCH_BUCKET = "NoSuchBucket", 404, "The specified bucket does not exist";
    NO_SUCH_BUCKET_POLICY = "NoSuchBucketPolicy", 404, "The bucket policy does not exist";
    NO_SUCH_CORS_CONFIGURATION = "NoSuchCORSConfiguration", 404, "The CORS configuration does not exist";
    NO_SUCH_ENCRYPTION_CONFIGURATION = "ServerSideEncryptionConfigurationNotFoundError", 404, "The server side encryption configuration was not found";
    NO_SUCH_KEY = "NoSuchKey", 404, "The specified key does not exist.";
    NO_SUCH_LIFECYCLE_CONFIGURATION = "NoSuchLifecycleConfiguration", 404, "The lifecycle configuration does not exist";
    NO_SUCH_OBJECT_LOCK_CONFIGURATION = "ObjectLockConfigurationNotFoundError", 404, "Object Lock configuration does not exist for this bucket";
    NO_SUCH_OWNERSHIP_CONTROLS = "OwnershipControlsNotFoundError", 404, "The bucket ownership controls were not found";
    NO_SUCH_PUBLIC_ACCESS_BLOCK = "NoSuchPublicAccessBlockConfiguration", 404, "The public access block configuration was not found";
    NO_SUCH_REPLICATION_CONFIGURATION = "ReplicationConfigurationNotFoundError", 404, "The replication configuration was not found";
    NO_SUCH_TAG_SET = "NoSuchTagSet", 404, "The TagSet does not exist";
    NO_SUCH_UPLOAD = "NoSuchUpload", 404, "The specified multipart upload does not exist. The upload ID might not be valid, or the multipart upload might have been aborted or completed.";
    NO_SUCH_VERSION = "NoSuchVersion", 404, "The specified version does not exist.";
    NO_SUCH_WEBSITE_CONFIGURATION = "NoSuchWebsiteConfiguration", 404, "The specified bucket does not have a website configuration";
    OPERATION_ABORTED = "OperationAborted", 409, "A conflicting conditional operation is currently in progress against this resource. Please try again.";
    PRECONDITION_FAILED = "PreconditionFailed", 412, "At least one of the preconditions that you specified did not hold.";
    REQUEST_HEADER_SECTION_TOO_LARGE = "RequestHeaderSectionTooLarge", 400, "The request header and query parameters used to make the request exceed the maximum allowed size.";
    REQUEST_TIME_TOO_SKEWED = "RequestTimeTooSkewed", 403, "The difference between the request time and the server's time is too large.";
    REQUEST_TIMEOUT = "RequestTimeout", 400, "Your socket connection to the server was not read from or written to within the timeout period. Idle connections will be closed.";
    SERVICE_UNAVAILABLE = "ServiceUnavailable", 503, "Service is unable to handle request.";
    SIGNATURE_DOES_NOT_MATCH = "SignatureDoesNotMatch", 403, "The request signature that the server calculated does not match the signature that you provided. Check your secret access key and signing method.";
    SLOW_DOWN = "SlowDown", 503, "Please reduce your request rate.";
    STORAGE_FULL = "XTrilithStorageFull", 507, "No space is left for new data: delete objects, or add a device.";
    TOO_MANY_BUCKETS = "TooManyBuckets", 400, "You have attempted to create more buckets than are allowed.";
    UNEXPECTED_CONTENT = "UnexpectedContent", 400, "This request contains unsupported content.";
    X_AMZ_CONTENT_SHA256_MISMATCH = "XAmzContentSHA256Mismatch", 400, "The provided 'x-amz-content-sha256' header does not match what was computed.";
}

impl Code {
    /// The code with this name.
    pub fn named(name: &str) -> Option<&'static Code> {
        ALL.iter().copied().find(|code| code.name == name)
    }
}

impl Failure {
    pub const fn new(code: &'static Code) -> Failure {
        Failure { code, message: None, details: Vec::new(), headers: Vec::new() }
    }

    /// With words of its own.
    pub fn with(code: &'static Code, message: impl Into<Cow<'static, str>>) -> Failure {
        Failure { code, message: Some(message.into()), details: Vec::new(), headers: Vec::new() }
    }

    /// An argument that is wrong, in words of its own.
    pub fn argument(message: impl Into<Cow<'static, str>>, name: impl Into<String>, value: impl Into<String>) -> Failure {
        Failure::with(INVALID_ARGUMENT, message).detail("ArgumentName", name).detail("ArgumentValue", value)
    }

    /// The same as [`Failure::detail`] for an element that may be there already.
    pub fn detail_unless_there(self, name: &'static str, value: impl Into<String>) -> Failure {
        if self.details.iter().any(|(found, _)| *found == name) { self } else { self.detail(name, value) }
    }

    /// With one more element in its XML.
    pub fn detail(mut self, name: &'static str, value: impl Into<String>) -> Failure {
        self.details.push((name, value.into()));
        self
    }

    /// With one more header in its answer.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Failure {
        self.headers.push((name, value));
        self
    }

    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or(self.code.message)
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).expect("the table holds valid statuses")
    }

    /// The answer that says so. `resource` is the request's path; HEAD answers carry no body.
    pub fn response(&self, resource: &str, request_id: &str, is_head: bool) -> Response<ResponseBody> {
        let status = self.status();
        let mut headers = HeaderMap::with_capacity(8);
        headers.extend(self.headers.iter().cloned());
        let body = if is_head || status == StatusCode::NOT_MODIFIED {
            ResponseBody::Empty
        } else {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
            ResponseBody::whole(self.xml(resource, request_id))
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    pub fn xml(&self, resource: &str, request_id: &str) -> Bytes {
        let mut xml = Xml::document();
        xml.open("Error");
        xml.element("Code", self.code.name);
        xml.element("Message", self.message());
        for (name, value) in &self.details {
            xml.element(name, value);
        }
        xml.element("Resource", resource);
        xml.element("RequestId", request_id);
        xml.close("Error");
        xml.finish()
    }
}

impl From<&'static Code> for Failure {
    fn from(code: &'static Code) -> Failure {
        Failure::new(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name, self.message())
    }
}

impl std::error::Error for Failure {}
