//! What answers requests: the guard, the check of the signature, then the operation itself or the S3 library.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use manager::Manager;
use object::{ObjectService, Principal, UploadMemory};

use crate::auth::{Authenticator, PayloadClaim, Verified};
use crate::config::S3Config;
use crate::dates::http_date;
use crate::details;
use crate::direct::{Call, Content, Direct};
use crate::failure::{Failure, INVALID_BUCKET_NAME, MISSING_CONTENT_LENGTH, NO_SUCH_BUCKET};
use crate::guard::{self, Admitted};
use crate::hearsay;
use crate::library::Library;
use crate::payload::{Announced, ChunkSigning, Chunked, FromRequest, Hashed, Pieces};
use crate::presigned;
use crate::repeated;
use crate::request_id::{RequestId, RequestIds};
use crate::response::ResponseBody;
use crate::server::{BodyFailure, RequestBody};
use crate::stats::{Answered, Counters, S3Stats};
use crate::target::Target;
use crate::translate;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// Everything that a request needs, shared by all cores.
pub struct App {
    config: S3Config,
    service: Arc<ObjectService>,
    manager: Arc<Manager>,
    authenticator: Authenticator,
    library: Library,
    ids: RequestIds,
    counters: Counters,
    env: Env,
}

/// What became of a request before the S3 library saw it.
enum Taken {
    Refused(Failure),
    Answered(Direct, Result<Response<ResponseBody>, Failure>),
    /// It is for the library, with what it may have to read.
    Passed(Document, Principal),
}

/// The content of a request that the library sorts out.
type Document = Content<Box<dyn Pieces>>;

impl App {
    pub fn new(config: S3Config, service: Arc<ObjectService>, manager: Arc<Manager>, env: &Env) -> Arc<App> {
        let authenticator = Authenticator::new(manager.clone(), env.clone());
        let library = Library::new(&config, service.clone());
        Arc::new(App {
            config,
            service,
            manager,
            authenticator,
            library,
            ids: RequestIds::new(env.random_u64()),
            counters: Counters::new(),
            env: env.clone(),
        })
    }

    pub fn config(&self) -> &S3Config {
        &self.config
    }

    /// What was asked and answered so far.
    pub fn stats(&self) -> S3Stats {
        self.counters.stats()
    }

    /// What uploads hold and may hold.
    pub fn upload_memory(&self) -> &UploadMemory {
        self.service.upload_memory()
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Answers one request.
    pub(crate) async fn answer(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let start = self.env.now();
        let id = self.ids.next();
        let (mut head, body) = request.into_parts();
        let received_bytes = body.announced().unwrap_or_default();
        let (mut direct, mut was_refused) = (None, false);
        let taken = match readable(&mut head) {
            Ok(moved) => self.take(&head, &moved, body).await,
            Err(failure) => Taken::Refused(failure),
        };
        let mut response = match taken {
            Taken::Passed(document, principal) => self.ask_library(head, document, principal, &id).await,
            Taken::Refused(failure) => {
                was_refused = true;
                self.refuse(failure, &Asked::of(&head), &id)
            }
            Taken::Answered(done, answer) => {
                direct = Some(done);
                answer.unwrap_or_else(|failure| self.refuse(failure, &Asked::of(&head), &id))
            }
        };
        response.headers_mut().insert(REQUEST_ID, id.header());
        let sent_bytes = response.body().size_hint().exact().unwrap_or_default();
        let took = self.env.now() - start;
        let status = response.status();
        self.counters.count(&Answered { direct, was_refused, status, received_bytes, sent_bytes, took });
        response
    }

    /// The request's body failed while it was answered: whatever the handler made of it, this is the reason.
    pub(crate) fn replace_after_failed_body(&self, response: &mut Response<ResponseBody>, failure: BodyFailure) {
        if response.status().is_success() {
            return;
        }
        let id = response.headers_mut().remove(REQUEST_ID).unwrap_or_else(|| self.ids.next().header());
        *response = translate::of_body(failure).response("", id.to_str().unwrap_or_default(), false);
        response.headers_mut().insert(REQUEST_ID, id);
    }

    /// The whole answer, as it is sent, to what could not be read as a request; the connection ends after it.
    pub(crate) fn refuse_unparsed(&self, failure: &Failure) -> Bytes {
        let id = self.ids.next();
        let xml = failure.xml("", id.as_str());
        let (status, sent_bytes) = (failure.status(), xml.len() as u64);
        let date = http_date(self.env.wall_clock_ms());
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/xml\r\ncontent-length: {sent_bytes}\r\n\
             {REQUEST_ID}: {}\r\ndate: {}\r\n\r\n",
            id.as_str(),
            String::from_utf8_lossy(&date),
        )
        .into_bytes();
        answer.extend_from_slice(&xml);
        let (received_bytes, took) = (0, Duration::ZERO);
        self.counters.count(&Answered { direct: None, was_refused: true, status, received_bytes, sent_bytes, took });
        Bytes::from(answer)
    }

    /// Verifies the client before anything of the body is read, and its rights before anything of the body is believed.
    async fn take(&self, head: &Parts, moved: &[HeaderName], body: RequestBody) -> Taken {
        let admitted = match guard::admit(head, moved, &self.config) {
            Ok(admitted) => admitted,
            Err(failure) => return Taken::Refused(failure),
        };
        if let Err(failure) = hearsay::hear_of(&self.manager, head, &admitted).await {
            return Taken::Refused(failure);
        }
        let verified = match &admitted.claim {
            None => Verified::anonymous(&head.headers),
            Some(claim) => match self.authenticator.verify(head, &admitted.query, claim) {
                Ok(verified) => verified,
                Err(failure) => return Taken::Refused(failure),
            },
        };
        match Direct::of(head, &admitted.target, &admitted.query) {
            Some(direct) => Taken::Answered(direct, self.do_directly(direct, head, &admitted, verified, body).await),
            None => match document(head, verified.payload, verified.signing, body) {
                Ok(document) => Taken::Passed(document, verified.principal),
                Err(failure) => Taken::Refused(failure),
            },
        }
    }

    async fn do_directly(
        &self,
        direct: Direct,
        head: &Parts,
        admitted: &Admitted<'_>,
        verified: Verified<'_>,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, Failure> {
        let Admitted { target, query, .. } = admitted;
        let Verified { principal, payload, signing } = verified;
        let call = Call { service: &self.service, principal: &principal, target, head, query };
        direct.check(&call)?;
        let pieces = FromRequest(body);
        match payload {
            _ if !direct.takes_content() => direct.run(call).await,
            PayloadClaim::Unsigned => direct.run_with(call, plain(&head.headers, pieces)).await,
            PayloadClaim::Sha256(hash) => direct.run_with(call, plain(&head.headers, Hashed::new(pieces, hash))).await,
            PayloadClaim::Chunked { has_trailers, .. } => {
                direct.run_with(call, chunked(&head.headers, pieces, signing, has_trailers)?).await
            }
        }
    }

    async fn ask_library(
        &self,
        head: Parts,
        document: Document,
        principal: Principal,
        id: &RequestId,
    ) -> Response<ResponseBody> {
        let asked = Asked::of(&head);
        match self.library.answer(head, document, principal).await {
            Ok(response) => response,
            Err(failure) => self.refuse(failure, &asked, id),
        }
    }

    fn refuse(&self, failure: Failure, asked: &Asked, id: &RequestId) -> Response<ResponseBody> {
        let is_head = asked.method == Method::HEAD;
        let impossible = failure.code == NO_SUCH_BUCKET && self.names_impossible_bucket(asked);
        let failure = if impossible { Failure::new(INVALID_BUCKET_NAME) } else { failure };
        let failure = details::complete(failure, &asked.method, &asked.uri, &asked.host, self.config.domain.as_deref());
        failure.response(asked.uri.path(), id.as_str(), is_head)
    }

    /// A bucket that is not there and could not be: the name is wrong.
    fn names_impossible_bucket(&self, asked: &Asked) -> bool {
        let target = Target::of(asked.uri.path(), &asked.host, self.config.domain.as_deref());
        target.is_ok_and(|target| manager::check_bucket_name(&target.bucket).is_err())
    }
}

/// What a refusal must know of a request whose head is gone.
struct Asked {
    method: Method,
    uri: Uri,
    /// The Host header alone.
    host: HeaderMap,
}

impl Asked {
    fn of(head: &Parts) -> Asked {
        let host = head.headers.get(HOST).map(|host| (HOST, host.clone()));
        Asked { method: head.method.clone(), uri: head.uri.clone(), host: host.into_iter().collect() }
    }
}

/// Brings headers into the form in which everything else reads them; the names of those that a presigned query has added.
fn readable(head: &mut Parts) -> Result<Vec<HeaderName>, Failure> {
    repeated::join(&mut head.headers)?;
    presigned::move_to_headers(head)
}

fn document(
    head: &Parts,
    payload: PayloadClaim<'_>,
    signing: Option<ChunkSigning>,
    body: RequestBody,
) -> Result<Document, Failure> {
    let length = body.announced();
    let pieces = FromRequest(body);
    Ok(match payload {
        PayloadClaim::Unsigned => Content { pieces: Box::new(pieces), length, trailers: None },
        PayloadClaim::Sha256(hash) => Content { pieces: Box::new(Hashed::new(pieces, hash)), length, trailers: None },
        PayloadClaim::Chunked { has_trailers, .. } => {
            let Content { pieces, length, trailers } = chunked(&head.headers, pieces, signing, has_trailers)?;
            Content { pieces: Box::new(pieces), length, trailers }
        }
    })
}

/// A body that is the content.
fn plain<P: Pieces>(headers: &HeaderMap, pieces: P) -> Content<P> {
    Content { pieces, length: number(headers.get(CONTENT_LENGTH)), trailers: None }
}

/// A body that holds the content in chunks.
fn chunked<P: Pieces>(
    headers: &HeaderMap,
    pieces: P,
    signing: Option<ChunkSigning>,
    has_trailers: bool,
) -> Result<Content<Chunked<P>>, Failure> {
    let Some(length) = number(headers.get("x-amz-decoded-content-length")) else { return Err(MISSING_CONTENT_LENGTH.into()) };
    let (pieces, trailers) = Chunked::new(pieces, signing, length, Announced::of(headers, has_trailers));
    Ok(Content { pieces, length: Some(length), trailers: Some(trailers) })
}

fn number(value: Option<&HeaderValue>) -> Option<u64> {
    value?.to_str().ok()?.parse().ok()
}
