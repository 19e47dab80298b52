//! Everything that a request needs, shared by all cores.
use crate::config::S3Config;
use crate::guard;
use crate::request_id::RequestIds;
use crate::response::ResponseBody;
use crate::server::{BodyFailure, RequestBody};
use http::{Request, Response};

pub struct App {
    config: S3Config,
    ids: RequestIds,
}

impl App {
    pub fn config(&self) -> &S3Config {
        &self.config
    }

    pub async fn answer(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let id = self.ids.next();
        let (head, body) = request.into_parts();
        match guard::admit(&head, &self.config) {
            Err(failure) => return failure.response(head.uri.path(), id.as_str(), false),
            Ok(admitted) => drop(admitted),
        }
        drop(body);
        Response::new(ResponseBody::Empty)
    }

    pub fn replace_after_failed_body(&self, _response: &mut Response<ResponseBody>, _failure: BodyFailure) {}
}
