//! ListObjects, both versions.
//!
//! The XML is written by hand: a page has a thousand entries, and serialising them through the library's types takes several
//! times as long as finding them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use engine::{ListItem, ListedObject};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use object::{ListRequest, Listing, MAX_LIST_ITEMS};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::Call;
use crate::answer_headers::{checksum_type, quoted};
use crate::dates::iso8601;
use crate::failure::Failure;
use crate::owner::canonical_id;
use crate::query::Query;
use crate::response::ResponseBody;
use crate::xml::Xml;

/// Bytes of an entry without its key, about.
const ENTRY_BYTES: usize = 330;

/// Bytes of a page without its entries, about.
const PAGE_BYTES: usize = 1024;

const NAMESPACE: &str = "ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
const ELEMENT: &str = "ListBucketResult";

/// What `encoding-type=url` escapes: everything but unreserved characters and slashes.
const URL_ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Url,
}

/// What both versions ask.
struct Question {
    request: ListRequest,
    max_keys: usize,
    encoding: Encoding,
}

pub async fn list_v2(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let query = call.query;
    let token = query.get("continuation-token");
    let start_after = query.get("start-after");
    let from = match token {
        Some("") => return Err(wrong_token("")),
        Some(token) => name_of_token(token)?,
        None => start_after.unwrap_or_default().to_owned(),
    };
    let question = question(query, from)?;
    let listing = call.service.list(call.principal, &call.target.bucket, &question.request).await?;
    let owner = if query.get("fetch-owner") == Some("true") { Some(owner_of(&call)?) } else { None };
    let mut page = Page::new(&question, &listing, owner);
    page.head(&call.target.bucket, &question, &listing);
    page.xml.open("KeyCount");
    page.xml.number(listing.items.len() as u64);
    page.xml.close("KeyCount");
    if let Some(token) = token {
        page.xml.element("ContinuationToken", token);
    }
    if let Some(next) = &listing.next {
        page.xml.element("NextContinuationToken", &BASE64.encode(next));
    }
    if let Some(start_after) = start_after {
        page.named("StartAfter", start_after);
    }
    page.items(&listing);
    Ok(page.finish())
}

pub async fn list_v1(call: Call<'_>) -> Result<Response<ResponseBody>, Failure> {
    let marker = call.query.text("marker");
    let question = question(call.query, marker.clone())?;
    let listing = call.service.list(call.principal, &call.target.bucket, &question.request).await?;
    let owner = owner_of(&call)?;
    let mut page = Page::new(&question, &listing, Some(owner));
    page.head(&call.target.bucket, &question, &listing);
    page.named("Marker", &marker);
    if let Some(next) = &listing.next {
        page.named("NextMarker", text_of(next));
    }
    page.items(&listing);
    Ok(page.finish())
}

fn question(query: &Query<'_>, start_after: String) -> Result<Question, Failure> {
    let encoding = match query.get("encoding-type") {
        None | Some("") => Encoding::Plain,
        Some("url") => Encoding::Url,
        Some(other) => {
            return Err(Failure::argument("Invalid Encoding Method specified in Request", "encoding-type", other));
        }
    };
    let max_keys = query.number("max-keys")?.map_or(MAX_LIST_ITEMS, |number| number as usize).min(MAX_LIST_ITEMS);
    let request =
        ListRequest { prefix: query.text("prefix"), delimiter: query.text("delimiter"), start_after, max_items: max_keys };
    Ok(Question { request, max_keys, encoding })
}

/// A continuation token is the last name of the page before; clients are told that it means nothing.
fn name_of_token(token: &str) -> Result<String, Failure> {
    let name = BASE64.decode(token).ok().and_then(|name| String::from_utf8(name).ok());
    name.ok_or_else(|| wrong_token(token))
}

fn wrong_token(token: &str) -> Failure {
    Failure::argument("The continuation token provided is incorrect", "continuation-token", token)
}

fn owner_of(call: &Call<'_>) -> Result<String, Failure> {
    Ok(call.service.find_bucket(&call.target.bucket)?.owner().to_owned())
}

fn text_of(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

/// A page that is being written.
struct Page {
    xml: Xml,
    encoding: Encoding,
    /// The element, the same for every entry.
    owner: Option<Vec<u8>>,
}

impl Page {
    fn new(question: &Question, listing: &Listing, owner: Option<String>) -> Page {
        let key_bytes: usize = listing.items.iter().map(|item| name_of(item).len()).sum();
        let owner = owner.map(|user| owner_element(&user));
        let entry_bytes = ENTRY_BYTES + owner.as_ref().map_or(0, Vec::len);
        let xml = Xml::with_capacity(PAGE_BYTES + key_bytes + listing.items.len() * entry_bytes);
        Page { xml, encoding: question.encoding, owner }
    }

    fn head(&mut self, bucket: &str, question: &Question, listing: &Listing) {
        self.xml.open(NAMESPACE);
        self.xml.element("Name", bucket);
        self.named("Prefix", &question.request.prefix);
        if !question.request.delimiter.is_empty() {
            self.named("Delimiter", &question.request.delimiter);
        }
        self.xml.open("MaxKeys");
        self.xml.number(question.max_keys as u64);
        self.xml.close("MaxKeys");
        if self.encoding == Encoding::Url {
            self.xml.element("EncodingType", "url");
        }
        self.xml.element("IsTruncated", if listing.next.is_some() { "true" } else { "false" });
    }

    fn named(&mut self, element: &str, name: &str) {
        self.xml.open(element);
        self.name(name);
        self.xml.close(element);
    }

    fn name(&mut self, name: &str) {
        match self.encoding {
            Encoding::Plain => self.xml.text(name),
            Encoding::Url => {
                for piece in utf8_percent_encode(name, URL_ESCAPED) {
                    self.xml.raw(piece.as_bytes());
                }
            }
        }
    }

    /// Objects first, then prefixes, as S3 writes them.
    fn items(&mut self, listing: &Listing) {
        for item in &listing.items {
            if let ListItem::Object(object) = item {
                self.object(object);
            }
        }
        for item in &listing.items {
            if let ListItem::Prefix(prefix) = item {
                self.xml.raw(b"<CommonPrefixes><Prefix>");
                self.name(text_of(prefix));
                self.xml.raw(b"</Prefix></CommonPrefixes>");
            }
        }
    }

    fn object(&mut self, object: &ListedObject) {
        self.xml.raw(b"<Contents><Key>");
        self.name(text_of(&object.key));
        self.xml.raw(b"</Key><LastModified>");
        self.xml.raw(&iso8601(object.modified_ms));
        self.xml.raw(b"</LastModified><ETag>&quot;");
        let tag = quoted(&object.etag);
        self.xml.raw(&tag.as_bytes()[1..tag.as_bytes().len() - 1]);
        self.xml.raw(b"&quot;</ETag>");
        if let Some(checksum) = &object.checksum {
            self.xml.raw(b"<ChecksumAlgorithm>");
            self.xml.raw(checksum.algorithm.name().as_bytes());
            self.xml.raw(b"</ChecksumAlgorithm><ChecksumType>");
            self.xml.raw(checksum_type(checksum.full_object).as_bytes());
            self.xml.raw(b"</ChecksumType>");
        }
        self.xml.raw(b"<Size>");
        self.xml.number(object.length);
        self.xml.raw(b"</Size>");
        if let Some(owner) = &self.owner {
            self.xml.raw(owner);
        }
        self.xml.raw(b"<StorageClass>");
        self.xml.raw(object.storage_class.name().as_bytes());
        self.xml.raw(b"</StorageClass></Contents>");
    }

    fn finish(mut self) -> Response<ResponseBody> {
        self.xml.close(ELEMENT);
        let mut response = Response::new(ResponseBody::whole(self.xml.finish()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        response
    }
}

fn name_of(item: &ListItem) -> &[u8] {
    match item {
        ListItem::Object(object) => &object.key,
        ListItem::Prefix(prefix) => prefix,
    }
}

fn owner_element(user: &str) -> Vec<u8> {
    let mut xml = Xml::fragment();
    xml.open("Owner");
    xml.element("ID", &canonical_id(user));
    xml.element("DisplayName", user);
    xml.close("Owner");
    xml.finish().to_vec()
}
