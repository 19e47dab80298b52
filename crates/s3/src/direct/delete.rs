//! DeleteObject.

use http::{Response, StatusCode};

use super::Call;
use super::read::check_version;
use crate::failure::Failure;
use crate::request_headers;
use crate::response::ResponseBody;

pub async fn delete(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    check_version(call.query)?;
    let condition = request_headers::write_condition(&call.head.headers)?;
    call.service.delete(call.principal, &call.target.bucket, &call.target.key, condition).await?;
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
