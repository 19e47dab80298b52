//! Headers that stand several times. HTTP says that they mean one header whose values are joined with commas (RFC 9110, section 5.3), and
//! that is what signatures cover. They are joined before anything reads them: the S3 library takes the first of them.

use http::header::{
    AUTHORIZATION, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, EXPECT, EXPIRES, HOST,
    IF_MODIFIED_SINCE, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::failure::{Failure, INVALID_REQUEST};

const AMZ: &str = "x-amz-";
const METADATA: &str = "x-amz-meta-";
const GRANT: &str = "x-amz-grant-";

/// S3's own headers whose values are lists.
const LISTS: [&str; 3] = ["x-amz-object-attributes", "x-amz-optional-object-attributes", "x-amz-trailer"];

/// Joins what is repeated. Refuses what holds one value: joined, it would mean something else to each reader.
pub fn join(headers: &mut HeaderMap) -> Result<(), Failure> {
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    let repeated: Vec<HeaderName> = headers.keys().filter(is_repeated).cloned().collect();
    for name in repeated {
        if holds_one_value(&name) {
            return Err(refuse(&name));
        }
        let values: Vec<&[u8]> = headers.get_all(&name).iter().map(|value| value.as_bytes().trim_ascii()).collect();
        let joined = HeaderValue::from_bytes(&values.join(&b','))
            .map_err(|_| Failure::with(INVALID_REQUEST, format!("The header {name} can't be read.")))?;
        headers.insert(name, joined);
    }
    Ok(())
}

/// The answer to a header that may stand once.
pub fn refuse(name: &HeaderName) -> Failure {
    Failure::with(INVALID_REQUEST, format!("The header {name} is repeated.")).detail("Header", name.as_str())
}

fn holds_one_value(name: &HeaderName) -> bool {
    const SINGLE: [HeaderName; 13] = [
        AUTHORIZATION,
        CONTENT_DISPOSITION,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        CONTENT_TYPE,
        DATE,
        EXPECT,
        EXPIRES,
        HOST,
        IF_MODIFIED_SINCE,
        IF_RANGE,
        IF_UNMODIFIED_SINCE,
        RANGE,
    ];
    let text = name.as_str();
    let is_own_list = || LISTS.contains(&text) || text.starts_with(METADATA) || text.starts_with(GRANT);
    SINGLE.contains(name) || text == "content-md5" || (text.starts_with(AMZ) && !is_own_list())
}
