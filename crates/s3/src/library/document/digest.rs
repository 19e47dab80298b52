//! The digests that clients sent of a document: a DeleteObjects with a flipped bit would delete something else.

use format::attributes::Checksum;
use http::Method;
use http::request::Parts;
use md5::{Digest, Md5};
use object::ChecksumDigest;

use crate::checksum_headers;
use crate::failure::Failure;
use crate::query::Query;
use crate::request_headers::content_md5;

/// The digests under way, each with what was given.
pub struct Digests {
    md5: Option<(Md5, [u8; 16])>,
    checksum: Option<(ChecksumDigest, Checksum)>,
}

impl Digests {
    /// What a request with this head gives.
    pub fn of(head: &Parts, query: &Query<'_>) -> Result<Digests, Failure> {
        let md5 = content_md5(&head.headers)?.map(|given| (Md5::new(), given));
        // What ends an upload names the checksum of the object, not of the list of its parts.
        let is_of_object = head.method == Method::POST && query.has("uploadId");
        checksum_headers::check_no_trailer(&head.headers)?;
        let given = if is_of_object { None } else { checksum_headers::given(&head.headers)? };
        let checksum = given.map(|given| (ChecksumDigest::new(given.algorithm()), given));
        Ok(Digests { md5, checksum })
    }

    pub fn update(&mut self, bytes: &[u8]) {
        if let Some((md5, _)) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some((running, _)) = &mut self.checksum {
            running.update(bytes);
        }
    }

    /// Whether the document is what its client meant; asked once.
    pub fn are_right(&mut self) -> bool {
        let is_md5 = self.md5.take().is_none_or(|(md5, given)| md5.finalize()[..] == given);
        let is_checksum = self.checksum.take().is_none_or(|(running, given)| running.finish() == given);
        is_md5 && is_checksum
    }
}
