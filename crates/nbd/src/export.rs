//! What the server serves: an export, and how it is found.
//!
//! An operation answers at once or later ([`Answer`]). An answer at once costs no allocation and no task.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A block image that clients read and write.
///
/// The server has checked each span: it is not empty, it starts and ends at multiples of [`crate::MINIMUM_BLOCK_BYTES`], and it ends
/// within the size that [`Export::facts`] gave when the client connected. The size may have shrunk since: the export checks
/// it again. Operations of one client run at the same time, overlapping ones too.
pub trait Export: Send + Sync + 'static {
    /// The name under which [`Exports::find`] finds it.
    fn name(&self) -> &str;

    /// What a client learns when it connects. Asked for again at each connection, so that a new size is seen there.
    fn facts(&self) -> ExportFacts;

    /// The first client is about to enter. No operation comes before this has succeeded.
    fn first_client_enters(&self) -> BoxFuture<'_, Result<(), OpenError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The last client has left, by a disconnect or because it vanished. No operation is under way any more, except those
    /// that were given up when a stop took too long.
    fn last_client_left(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Reads. The content covers exactly the span. A span has at most [`crate::MAX_PAYLOAD_BYTES`].
    fn read(&self, span: Span) -> Answer<'_, Content>;

    /// Writes; `force_unit_access` asks that the data be durable before the answer. A write has at most
    /// [`crate::PIECE_BYTES`]: longer ones come in pieces.
    fn write(&self, offset: u64, data: Bytes, force_unit_access: bool) -> Answer<'_, ()>;

    /// Makes the span read as zeros.
    fn write_zeros(&self, span: Span, flags: WriteZerosFlags) -> Answer<'_, ()>;

    /// The span's content is not needed any more.
    fn trim(&self, span: Span, force_unit_access: bool) -> Answer<'_, ()>;

    /// Makes durable all writes that were answered before.
    fn flush(&self) -> Answer<'_, ()>;

    /// The client will read the span soon. Called only if [`ExportFacts::can_cache`].
    fn cache(&self, _span: Span) -> Answer<'_, ()> {
        Answer::Now(Ok(()))
    }

    /// What is allocated: consecutive extents from the span's start on, at least one, of which the first `most` count.
    /// They may end before the span or beyond it.
    fn block_status(&self, span: Span, most: usize) -> Answer<'_, Vec<Extent>>;
}

/// Finds exports.
pub trait Exports: Send + Sync + 'static {
    /// The export of that name; the empty name asks for the default export.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<dyn Export>, OpenError>>;

    /// All exports that a client may see.
    fn list(&self) -> BoxFuture<'_, Result<Vec<ListedExport>, OpenError>>;
}

/// An entry of a list of exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedExport {
    pub name: String,
    /// For people; may be empty.
    pub description: String,
}

/// What a client learns of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportFacts {
    /// A multiple of [`crate::MINIMUM_BLOCK_BYTES`], below 2^63.
    pub size_bytes: u64,
    pub is_read_only: bool,
    /// Whether a flush, and forced unit access, on one connection cover what was acknowledged on all.
    pub is_coherent_across_connections: bool,
    pub can_trim: bool,
    pub can_cache: bool,
    /// Whether the export can say, before it starts, that writing zeros would not be faster than writing data.
    pub can_zero_fast: bool,
    /// For people; may be empty.
    pub description: String,
}

/// A part of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub offset: u64,
    pub length: u32,
}

impl Span {
    pub fn end(self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// Cuts the span at the next multiple of [`crate::PIECE_BYTES`]; the second part may be empty.
    pub(crate) fn split_piece(self) -> (Span, Span) {
        let to_border = crate::PIECE_BYTES - (self.offset % u64::from(crate::PIECE_BYTES)) as u32;
        let length = self.length.min(to_border);
        let rest = Span { offset: self.offset + u64::from(length), length: self.length - length };
        (Span { offset: self.offset, length }, rest)
    }
}

/// How to write zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteZerosFlags {
    /// Durable before the answer.
    pub force_unit_access: bool,
    /// The space stays allocated: a later write must not fail for lack of space.
    pub keep_allocated: bool,
    /// Fail at once with [`ExportErrorKind::NotFast`] unless it is faster than writing data.
    pub only_if_fast: bool,
}

/// What was read: parts one after the other.
pub type Content = SmallVec<[ContentPart; 1]>;

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPart {
    Data(Bytes),
    /// That many zeros that need not be sent.
    Zeros(u32),
}

impl ContentPart {
    pub fn length(&self) -> usize {
        match self {
            ContentPart::Data(data) => data.len(),
            ContentPart::Zeros(length) => *length as usize,
        }
    }
}

/// A stretch of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Not 0.
    pub length: u64,
    /// Not allocated: a write may need space.
    pub is_hole: bool,
    /// Reads as zeros.
    pub is_zero: bool,
}

/// The answer of an operation.
pub enum Answer<'a, T> {
    Now(Result<T, ExportError>),
    Later(BoxFuture<'a, Result<T, ExportError>>),
}

impl<'a, T> Answer<'a, T> {
    /// An operation that waits.
    pub fn later(operation: impl Future<Output = Result<T, ExportError>> + Send + 'a) -> Answer<'a, T> {
        Answer::Later(Box::pin(operation))
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExportError {
    pub kind: ExportErrorKind,
    /// For people. Clients see it if they have negotiated structured replies.
    pub message: Cow<'static, str>,
}

/// What the client can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportErrorKind {
    /// The medium failed; whether a write took effect is unknown.
    Io,
    /// There is no space left.
    NoSpace,
    /// The request makes no sense, for example because the export has shrunk below the span.
    Invalid,
    /// The export does not allow it.
    NotPermitted,
    /// The span is too long for this operation; shorter ones work.
    TooLong,
    /// Asked to be fast, and would not be.
    NotFast,
    /// The export ends; connect again elsewhere or later.
    ShuttingDown,
}

impl ExportError {
    pub fn new(kind: ExportErrorKind, message: impl Into<Cow<'static, str>>) -> ExportError {
        ExportError { kind, message: message.into() }
    }
}

/// Why an export could not be found or entered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("there is no export of this name")]
    NoSuchExport,
    /// It exists, and may not be used now or by this client; the reason says why.
    #[error("{0}")]
    NotPermitted(String),
    #[error("the server is shutting down")]
    ShuttingDown,
    #[error("the export is not available: {0}")]
    Unavailable(String),
}
