//! The S3 library behind the rest: it sorts out requests, and reads and writes XML for every operation that [`crate::direct`] does not do
//! itself. Signatures are verified before, and taken away: no request has two readers of what was signed. No type of the library leaves this module and those below it, except in bodies.

mod access;
mod document;
mod operations;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub(crate) use document::PartList;
use document::{Document, Room, STAND_IN};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Limited};
use object::{ObjectService, Principal};
use parking_lot::Mutex;
use s3s::config::{S3Config as LibraryConfig, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::config::{MAX_DOCUMENT_MS, MAX_XML_BODY_BYTES, S3Config};
use crate::direct::Content;
use crate::failure::{Code, Failure, INTERNAL_ERROR, MISSING_CONTENT_LENGTH};
use crate::payload::Pieces;
use crate::presigned;
use crate::query::Query;
use crate::response::ResponseBody;
use crate::xml;

/// Most bytes of an error that the library writes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The library, set up.
pub struct Library {
    service: S3Service,
    documents: Room,
}

/// Carries a failure past the library, whose errors hold less.
#[derive(Clone, Default)]
pub(crate) struct FailureSlot(Arc<Mutex<Option<Failure>>>);

/// A document that stands in place of the one that the library writes.
#[derive(Clone)]
pub(crate) struct OwnDocument(pub Bytes);

/// The log as it is where this is made: carries it past the library, which is kept silent, to our own code.
#[derive(Clone, Default)]
pub(crate) struct Log(pub Dispatch);

impl Library {
    pub fn new(config: &S3Config, service: Arc<ObjectService>) -> Library {
        let operations = operations::Operations::new(config, service.clone());
        let mut builder = S3ServiceBuilder::new(operations);
        builder.set_auth(access::NoSecrets);
        builder.set_access(access::Access(service));
        builder.set_validation(access::AnyName);
        if let Some(domain) = &config.domain {
            builder.set_host(access::Domain(domain.clone()));
        }
        let mut limits = LibraryConfig::default();
        limits.xml_max_body_size = MAX_XML_BODY_BYTES;
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(limits))));
        Library { service: builder.build(), documents: Room::new(Duration::from_millis(MAX_DOCUMENT_MS)) }
    }

    /// Answers a request of a verified client, with the content of its body.
    pub async fn answer(
        &self,
        mut head: Parts,
        document: Content<Box<dyn Pieces>>,
        principal: Principal,
    ) -> Result<Response<ResponseBody>, Failure> {
        let slot = FailureSlot::default();
        head.extensions.insert(slot.clone());
        head.extensions.insert(Log::default());
        // Held until the answer is there, with what the document has of the room for all.
        let allowance = self.documents.allowance(principal != Principal::Anonymous);
        head.extensions.insert(allowance.clone());
        head.extensions.insert(principal);
        head.headers.remove(AUTHORIZATION);
        head.uri = presigned::without_signature(&head.uri)?;
        let list = PartList::of(&head, &Query::parse(head.uri.query())?);
        let length = if list.is_some() { Some(STAND_IN.len() as u64) } else { document.length };
        if let Some(list) = list {
            head.extensions.insert(list);
        }
        if let Some(length) = length
            && head.headers.contains_key(CONTENT_LENGTH)
        {
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let body = s3s::Body::http_body_unsync(Document::new(document, &head, allowance, slot.clone())?);
        let request = Request::from_parts(head, body);
        // The library logs every request that it refuses as an error, and a malformed document as a whole: strangers could fill the disk.
        let mut response = self.service.call(request).with_subscriber(Dispatch::none()).await.map_err(|error| {
            tracing::error!(error = %s3s::StdError::from(error), "the S3 library failed");
            Failure::new(INTERNAL_ERROR)
        })?;
        if let Some(failure) = slot.take() {
            return Err(failure);
        }
        if response.status().is_client_error() || response.status().is_server_error() {
            return Err(failure_of(response).await);
        }
        if let Some(OwnDocument(document)) = response.extensions_mut().remove() {
            response.headers_mut().remove(CONTENT_LENGTH);
            return Ok(response.map(|_| ResponseBody::whole(document)));
        }
        let is_document = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/xml");
        Ok(response.map(if is_document { readable } else { ResponseBody::Library }))
    }
}

impl FailureSlot {
    /// Leaves a failure, and makes the error that the library wants.
    pub(crate) fn put(&self, failure: Failure) -> s3s::S3Error {
        let code = s3s::S3ErrorCode::from_bytes(failure.code.name.as_bytes()).unwrap_or(s3s::S3ErrorCode::InternalError);
        self.leave(failure);
        s3s::S3Error::new(code)
    }

    /// Leaves a failure. The first counts: what follows from it says less.
    pub(crate) fn leave(&self, failure: Failure) {
        self.0.lock().get_or_insert(failure);
    }

    fn take(&self) -> Option<Failure> {
        self.0.lock().take()
    }
}

/// The library writes control characters of keys as they are, which no client can read, and carriage returns, which clients read as line
/// feeds: as another key.
fn readable(body: s3s::Body) -> ResponseBody {
    let Some(document) = body.bytes() else { return ResponseBody::Library(body) };
    match xml::with_references(&document) {
        Some(written) => ResponseBody::whole(written),
        None => ResponseBody::Library(body),
    }
}

/// An error that the library made itself, read back: its code is looked up in our table.
async fn failure_of(response: Response<s3s::Body>) -> Failure {
    let status = response.status();
    let text = match Limited::new(response.into_body(), MAX_ERROR_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => Bytes::new(),
    };
    let text = String::from_utf8_lossy(&text);
    let (code, message) = (element(&text, "Code"), element(&text, "Message"));
    match code.and_then(Code::named) {
        // The library names a header of its own choice.
        Some(code) if code == MISSING_CONTENT_LENGTH => Failure::new(code),
        Some(code) => match message {
            Some(message) => Failure::with(code, unescape(message)),
            None => Failure::new(code),
        },
        None => {
            tracing::warn!(%status, code, "the S3 library answered an error that is not in the table");
            Failure::new(INTERNAL_ERROR)
        }
    }
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let from = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let bytes = xml[from..].find(&format!("</{name}>"))?;
    Some(&xml[from..from + bytes])
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}
