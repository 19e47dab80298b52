//! The way from the library to the operations that this crate does itself, for requests that the library had to verify.

use std::sync::Arc;

use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri};
use object::{ObjectService, Principal};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result};
use tracing::instrument::WithSubscriber;

use super::access::check_claimed;
use super::{FailureSlot, Log};
use crate::app::{decoded_length, plain, run_chunked};
use crate::auth::{Authenticator, PayloadClaim, payload_claim};
use crate::direct::{Call, Content, Direct};
use crate::failure::{ACCESS_DENIED, Failure};
use crate::payload::{FromLibrary, Hashed, Trailers};
use crate::query::Query;
use crate::response::ResponseBody;
use crate::target::Target;

/// Takes over what [`Direct`] does.
pub struct Route {
    pub service: Arc<ObjectService>,
    pub authenticator: Arc<Authenticator>,
    pub domain: Option<String>,
}

#[async_trait::async_trait]
impl S3Route for Route {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        let head = parts(method, uri, headers);
        let Ok(target) = Target::of(uri.path(), headers, self.domain.as_deref()) else { return false };
        let Ok(query) = Query::parse(uri.query()) else { return false };
        Direct::of(&head, &target, &query).is_some()
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        // The object service authorises.
        check_claimed(&request.extensions, request.credentials.as_ref().map(|found| found.access_key.as_str()))
    }

    async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let slot = request.extensions.remove::<FailureSlot>().unwrap_or_default();
        let Log(log) = request.extensions.remove().unwrap_or_default();
        self.run(request).with_subscriber(log).await.map_err(|failure| slot.put(failure))
    }
}

impl Route {
    async fn run(&self, request: S3Request<Body>) -> Result<S3Response<Body>, Failure> {
        let S3Request { input: body, method, uri, headers, credentials, trailing_headers, .. } = request;
        let head = parts(&method, &uri, &headers);
        let target = Target::of(uri.path(), &headers, self.domain.as_deref())?;
        let query = Query::parse(uri.query())?;
        let direct = Direct::of(&head, &target, &query).expect("matched before");
        let principal = match &credentials {
            None => Principal::Anonymous,
            Some(known) => self.authenticator.principal(&known.access_key).ok_or(Failure::new(ACCESS_DENIED))?,
        };
        let call = Call { service: &self.service, principal: &principal, target: &target, head: &head, query: &query };
        let pieces = FromLibrary(body);
        let response = match payload_claim(&headers) {
            _ if !direct.takes_content() => direct.run(call).await?,
            // The library unpacks chunks of signed requests only, and compares only their hashes.
            Some(PayloadClaim::Chunked { has_trailers, .. }) if credentials.is_none() => {
                run_chunked(direct, call, pieces, has_trailers).await?
            }
            Some(PayloadClaim::Sha256(hash)) if credentials.is_none() => {
                direct.run_with(call, plain(&headers, Hashed::new(pieces, hash))).await?
            }
            Some(PayloadClaim::Chunked { .. }) => {
                let trailers = trailing_headers.map(Trailers::Library);
                direct.run_with(call, Content { pieces, length: decoded_length(&headers), trailers }).await?
            }
            _ => direct.run_with(call, plain(&headers, pieces)).await?,
        };
        let (head, body) = response.into_parts();
        let mut response = S3Response::with_status(into_library(body), head.status);
        response.headers = head.headers;
        Ok(response)
    }
}

fn into_library(body: ResponseBody) -> Body {
    match body {
        ResponseBody::Empty => Body::empty(),
        ResponseBody::Whole(bytes) => Body::from(bytes),
        ResponseBody::Library(body) => body,
        body @ ResponseBody::Object(_) => Body::http_body_unsync(body),
    }
}

fn parts(method: &Method, uri: &Uri, headers: &HeaderMap) -> Parts {
    let mut parts = Request::new(()).into_parts().0;
    parts.method = method.clone();
    parts.uri = uri.clone();
    parts.headers = headers.clone();
    parts
}
