//! DeleteObject.

use http::{Response, StatusCode};

use super::Call;
use super::read::check_version;
use crate::failure::{Failure, NOT_IMPLEMENTED};
use crate::request_headers;
use crate::response::ResponseBody;

/// Conditions that are not implemented.
const NOT_THERE: [&str; 2] = ["x-amz-if-match-size", "x-amz-if-match-last-modified-time"];

pub async fn delete(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    check_version(call.query)?;
    // A condition that is passed over would be taken for one that holds.
    if let Some(name) = NOT_THERE.iter().find(|name| call.head.headers.contains_key(**name)) {
        return Err(Failure::with(NOT_IMPLEMENTED, format!("The header {name} asks for what is not implemented.")));
    }
    let condition = request_headers::write_condition(&call.head.headers)?;
    call.service.delete(call.principal, &call.target.bucket, &call.target.key, condition).await?;
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
