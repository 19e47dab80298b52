//! The operations that this crate does itself, from the request's head to the answer: those that clients do most, and those
//! whose answers are large.

mod copy;
mod delete;
mod list;
mod read;
mod write;

pub use read::check_version;

use http::request::Parts;
use http::{Method, Response};
use object::{Action, ObjectService, Principal};

use crate::expected_owner;
use crate::failure::Failure;
use crate::payload::{Pieces, Trailers};
use crate::query::Query;
use crate::refusals;
use crate::response::ResponseBody;
use crate::tags;
use crate::target::Target;

/// An operation that this crate does itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    GetObject,
    HeadObject,
    PutObject,
    DeleteObject,
    UploadPart,
    CopyObject,
    UploadPartCopy,
    ListObjects,
    ListObjectsV2,
}

/// Query parameters that make a request something else than reading, writing or listing objects.
const SUBRESOURCES: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "annotation",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "events",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploads",
    "versioning",
    "versions",
    "website",
];

/// Whether a request is about a part of a bucket or object, and not about the bucket or object.
pub fn names_subresource(query: &Query<'_>) -> bool {
    query.has_any(SUBRESOURCES)
}

/// What a write or a delete of an object may say in its query.
const OF_WRITES: [&str; 3] = ["partNumber", "uploadId", "versionId"];

/// One request for such an operation, from somebody who is known.
pub struct Call<'a> {
    pub service: &'a ObjectService,
    pub principal: &'a Principal,
    pub target: &'a Target<'a>,
    pub head: &'a Parts,
    pub query: &'a Query<'a>,
}

/// The content of a request, unpacked.
pub struct Content<P> {
    pub pieces: P,
    /// Bytes, where they are declared.
    pub length: Option<u64>,
    pub trailers: Option<Trailers>,
}

impl Direct {
    /// Which operation a request asks for; `None` for one that is the library's to sort out.
    pub fn of(head: &Parts, target: &Target<'_>, query: &Query<'_>) -> Option<Direct> {
        if target.bucket.is_empty() || names_subresource(query) {
            return None;
        }
        if target.key.is_empty() {
            return match head.method {
                Method::GET if query.get("list-type") == Some("2") => Some(Direct::ListObjectsV2),
                Method::GET if !query.has("list-type") => Some(Direct::ListObjects),
                _ => None,
            };
        }
        let (has_upload, has_part) = (query.has("uploadId"), query.has("partNumber"));
        match head.method {
            Method::GET if !has_upload => Some(Direct::GetObject),
            Method::HEAD if !has_upload => Some(Direct::HeadObject),
            Method::DELETE if !has_upload => Some(Direct::DeleteObject),
            Method::PUT => match (head.headers.contains_key(copy::COPY_SOURCE), has_upload, has_part) {
                (false, true, true) => Some(Direct::UploadPart),
                (false, false, false) => Some(Direct::PutObject),
                (true, true, true) => Some(Direct::UploadPartCopy),
                (true, false, false) => Some(Direct::CopyObject),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the request's body is the operation's content.
    pub fn takes_content(self) -> bool {
        matches!(self, Direct::PutObject | Direct::UploadPart)
    }

    /// Whether the request is allowed, and asks for nothing that is not there. Asked before anything of its body is read.
    pub fn check(self, call: &Call<'_>) -> Result<(), Failure> {
        let Call { service, principal, target, head, query } = call;
        let bucket = service.find_bucket(&target.bucket)?;
        bucket.authorize(principal, self.action())?;
        if matches!(self, Direct::PutObject | Direct::CopyObject) {
            tags::authorize(&head.headers, &bucket, principal)?;
        }
        expected_owner::check(service, &head.headers, &target.bucket)?;
        if head.method == Method::PUT {
            refusals::check_no_version(query)?;
        }
        if head.method == Method::PUT || head.method == Method::DELETE {
            refusals::check_query(query, &OF_WRITES)?;
        }
        refusals::check(&head.method, &head.headers)
    }

    fn action(self) -> Action {
        match self {
            Direct::GetObject | Direct::HeadObject => Action::GetObject,
            Direct::PutObject | Direct::UploadPart | Direct::CopyObject | Direct::UploadPartCopy => Action::PutObject,
            Direct::DeleteObject => Action::DeleteObject,
            Direct::ListObjects | Direct::ListObjectsV2 => Action::ListBucket,
        }
    }

    /// Does an operation that takes no content.
    pub async fn run(self, call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
        match self {
            Direct::GetObject => read::get(call).await,
            Direct::HeadObject => read::head(call).await,
            Direct::DeleteObject => delete::delete(call).await,
            Direct::CopyObject => copy::copy(call).await,
            Direct::UploadPartCopy => copy::copy_part(call).await,
            Direct::ListObjects => list::list_v1(call).await,
            Direct::ListObjectsV2 => list::list_v2(call).await,
            Direct::PutObject | Direct::UploadPart => unreachable!("these take content"),
        }
    }

    /// Does an operation that takes content.
    pub async fn run_with<P: Pieces>(self, call: Call<'_>, content: Content<P>) -> Result<Response<ResponseBody>, Failure> {
        match self {
            Direct::PutObject => write::put(call, content).await,
            Direct::UploadPart => write::put_part(call, content).await,
            _ => self.run(call).await,
        }
    }
}
