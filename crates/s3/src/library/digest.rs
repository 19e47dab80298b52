//! Documents that the library reads, compared with the digests that their clients sent: a DeleteObjects with a flipped bit would
//! delete something else.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use format::attributes::{Checksum, ChecksumAlgorithm};
use http::Method;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::Sha256;

use super::FailureSlot;
use crate::failure::{BAD_DIGEST, Failure};
use crate::query::Query;
use crate::request_headers::{content_md5, given_checksum};
use crate::server::{BodyFailure, RequestBody};

/// A document's body. If it is not what its client meant, the body breaks off and the failure lies in the slot.
pub struct Document {
    body: RequestBody,
    md5: Option<(Md5, [u8; 16])>,
    checksum: Option<(Running, Checksum)>,
    slot: FailureSlot,
}

/// A checksum under way.
enum Running {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Document {
    /// The body of a request with this head.
    pub fn new(body: RequestBody, head: &Parts, slot: FailureSlot) -> Result<Document, Failure> {
        let md5 = content_md5(&head.headers)?.map(|given| (Md5::new(), given));
        // What ends an upload names the checksum of the object, not of the list of its parts.
        let is_of_object = head.method == Method::POST && Query::parse(head.uri.query())?.has("uploadId");
        let given = if is_of_object { None } else { given_checksum(&head.headers)? };
        let checksum = given.map(|given| (Running::new(given.algorithm()), given));
        Ok(Document { body, md5, checksum, slot })
    }

    fn update(&mut self, bytes: &[u8]) {
        if let Some((md5, _)) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some((running, _)) = &mut self.checksum {
            running.update(bytes);
        }
    }

    /// Whether the document is what its client meant; asked once.
    fn is_right(&mut self) -> bool {
        let is_md5 = self.md5.take().is_none_or(|(md5, given)| md5.finalize()[..] == given);
        let is_checksum = self.checksum.take().is_none_or(|(running, given)| running.is(given.value()));
        is_md5 && is_checksum
    }
}

impl Running {
    fn new(algorithm: ChecksumAlgorithm) -> Running {
        match algorithm {
            ChecksumAlgorithm::Crc32 => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            ChecksumAlgorithm::Crc32c => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            ChecksumAlgorithm::Crc64Nvme => Running::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            ChecksumAlgorithm::Sha1 => Running::Sha1(Sha1::new()),
            ChecksumAlgorithm::Sha256 => Running::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Running::Crc(digest) => digest.update(bytes),
            Running::Sha1(digest) => digest.update(bytes),
            Running::Sha256(digest) => digest.update(bytes),
        }
    }

    fn is(self, given: &[u8]) -> bool {
        match self {
            // Shown big endian, in as many bytes as the algorithm has.
            Running::Crc(digest) => digest.finalize().to_be_bytes().ends_with(given),
            Running::Sha1(digest) => digest.finalize()[..] == *given,
            Running::Sha256(digest) => digest.finalize()[..] == *given,
        }
    }
}

impl Body for Document {
    type Data = Bytes;
    type Error = BodyFailure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyFailure>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            self.update(bytes);
        }
        let is_over = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        if is_over && !self.is_right() {
            self.slot.leave(Failure::new(BAD_DIGEST));
            return Poll::Ready(Some(Err(BodyFailure::Broken)));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        // Not before the digests were compared.
        self.body.is_end_stream() && self.md5.is_none() && self.checksum.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
