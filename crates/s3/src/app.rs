//! What answers requests: the guard, then the short way, then the S3 library.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use manager::Manager;
use object::{ObjectService, Principal};

use crate::auth::{Authenticator, PayloadClaim, payload_claim};
use crate::config::S3Config;
use crate::dates::http_date;
use crate::direct::{Call, Content, Direct};
use crate::failure::{Failure, INVALID_BUCKET_NAME, NO_SUCH_BUCKET};
use crate::guard::{self, Admitted};
use crate::hearsay;
use crate::library::{Claimed, Library};
use crate::payload::{Chunked, FromRequest, Hashed, Pieces};
use crate::presigned;
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
    authenticator: Arc<Authenticator>,
    library: Library,
    ids: RequestIds,
    counters: Counters,
    env: Env,
}

/// What became of a request on the short way.
enum Short {
    Refused(Failure),
    Answered(Direct, Result<Response<ResponseBody>, Failure>),
    /// It is for the library, which asks back for what is direct.
    Passed(RequestBody, Option<Direct>, Claimed),
}

impl App {
    pub fn new(config: S3Config, service: Arc<ObjectService>, manager: Arc<Manager>, env: &Env) -> Arc<App> {
        let authenticator = Arc::new(Authenticator::new(manager.clone(), env.clone()));
        let library = Library::new(&config, service.clone(), authenticator.clone());
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
        let short = match presigned::move_to_headers(&mut head) {
            Ok(moved) => self.take_short_way(&head, &moved, body).await,
            Err(failure) => Short::Refused(failure),
        };
        let mut response = match short {
            Short::Passed(body, direct, claimed) => self.ask_library(head, body, direct, claimed, &id).await,
            Short::Refused(failure) => {
                was_refused = true;
                self.refuse(&failure, &Asked::of(&head), &id)
            }
            Short::Answered(done, answer) => {
                direct = Some(done);
                answer.unwrap_or_else(|failure| self.refuse(&failure, &Asked::of(&head), &id))
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

    async fn take_short_way(&self, head: &Parts, moved: &[HeaderName], body: RequestBody) -> Short {
        let admitted = match guard::admit(head, moved, &self.config) {
            Ok(admitted) => admitted,
            Err(failure) => return Short::Refused(failure),
        };
        if let Err(failure) = hearsay::hear_of(&self.manager, head, &admitted).await {
            return Short::Refused(failure);
        }
        match Direct::of(head, &admitted.target, &admitted.query) {
            Some(direct) if self.config.short_way => self.do_directly(direct, head, &admitted, body).await,
            direct => Short::Passed(body, direct, Claimed::of(admitted.claim.as_ref())),
        }
    }

    async fn do_directly(&self, direct: Direct, head: &Parts, admitted: &Admitted<'_>, body: RequestBody) -> Short {
        let Admitted { target, query, .. } = admitted;
        let call = |principal| Call { service: &self.service, principal, target, head, query };
        let Some(claim) = &admitted.claim else {
            let payload = payload_claim(&head.headers).unwrap_or(PayloadClaim::Unsigned);
            let call = call(&Principal::Anonymous);
            let answer = match payload {
                _ if !direct.takes_content() => direct.run(call).await,
                PayloadClaim::Chunked { has_trailers, .. } => run_chunked(direct, call, FromRequest(body), has_trailers).await,
                PayloadClaim::Unsigned => direct.run_with(call, plain(&head.headers, FromRequest(body))).await,
                PayloadClaim::Sha256(hash) => {
                    direct.run_with(call, plain(&head.headers, Hashed::new(FromRequest(body), hash))).await
                }
            };
            return Short::Answered(direct, answer);
        };
        let Some(verified) = self.authenticator.verify(head, claim) else {
            return Short::Passed(body, Some(direct), Claimed::of(Some(claim)));
        };
        let call = call(&verified.principal);
        let answer = match verified.payload {
            _ if !direct.takes_content() => direct.run(call).await,
            PayloadClaim::Unsigned => direct.run_with(call, plain(&head.headers, FromRequest(body))).await,
            PayloadClaim::Sha256(hash) => {
                direct.run_with(call, plain(&head.headers, Hashed::new(FromRequest(body), hash))).await
            }
            PayloadClaim::Chunked { is_signed, has_trailers } => {
                let Some(length) = decoded_length(&head.headers) else {
                    return Short::Passed(body, Some(direct), Claimed::of(Some(claim)));
                };
                let signing = is_signed.then(|| verified.chunk_signing(claim));
                let (pieces, trailers) = Chunked::new(FromRequest(body), signing, length, has_trailers);
                direct.run_with(call, Content { pieces, length: Some(length), trailers: Some(trailers) }).await
            }
        };
        Short::Answered(direct, answer)
    }

    async fn ask_library(
        &self,
        mut head: Parts,
        body: RequestBody,
        direct: Option<Direct>,
        claimed: Claimed,
        id: &RequestId,
    ) -> Response<ResponseBody> {
        let asked = Asked::of(&head);
        head.extensions.insert(claimed);
        match self.library.answer(head, body, direct).await {
            Ok(response) => response,
            Err(failure) => self.refuse(&failure, &asked, id),
        }
    }

    fn refuse(&self, failure: &Failure, asked: &Asked, id: &RequestId) -> Response<ResponseBody> {
        let is_head = asked.method == Method::HEAD;
        if failure.code == NO_SUCH_BUCKET && self.names_impossible_bucket(asked) {
            return Failure::new(INVALID_BUCKET_NAME).response(asked.uri.path(), id.as_str(), is_head);
        }
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

/// A body that is the content.
pub fn plain<P: Pieces>(headers: &HeaderMap, pieces: P) -> Content<P> {
    Content { pieces, length: number(headers.get(CONTENT_LENGTH)), trailers: None }
}

/// An anonymous request in chunks, which nobody has signed.
pub async fn run_chunked<P: Pieces>(
    direct: Direct,
    call: Call<'_>,
    pieces: P,
    has_trailers: bool,
) -> Result<Response<ResponseBody>, Failure> {
    let Some(length) = decoded_length(&call.head.headers) else {
        return Err(crate::failure::MISSING_CONTENT_LENGTH.into());
    };
    let (pieces, trailers) = Chunked::new(pieces, None, length, has_trailers);
    direct.run_with(call, Content { pieces, length: Some(length), trailers: Some(trailers) }).await
}

/// Bytes of content in a chunked body.
pub fn decoded_length(headers: &HeaderMap) -> Option<u64> {
    number(headers.get("x-amz-decoded-content-length"))
}

fn number(value: Option<&HeaderValue>) -> Option<u64> {
    value?.to_str().ok()?.parse().ok()
}
