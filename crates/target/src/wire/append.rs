//! Appends of one writer to one device, in one request.

use bytes::{BufMut, Bytes, BytesMut};
use device::AppendClass;
use types::DeviceId;

use crate::Writer;
use crate::wire::answer::{AppendAnswer, Failure, put_result, take_result};
use crate::wire::ask::APPEND;
use crate::wire::codec::{Reader, WRITER_BYTES, Wire, WireError};

/// One append of a request. The frame is composed and sealed for no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppendPart {
    pub class: AppendClass,
    pub frame: Bytes,
}

/// The answers to the appends of a request, in their order.
pub type AppendAnswers = Vec<Result<AppendAnswer, Failure>>;

/// Bytes of a request before its appends: device, ask, writer, session, count.
const HEAD_BYTES: usize = SESSION_AT + 8 + 4;
const SESSION_AT: usize = 4 + 1 + WRITER_BYTES;
/// Bytes of an append before its frame: class, length.
const PART_HEAD_BYTES: usize = 1 + 4;
/// Bytes of the shortest answer.
const MIN_ANSWER_BYTES: usize = 1 + 4;
/// Room for so many appends of the first one's length is made at once.
const FIRST_ROOM: usize = 4;

/// A request that appends are added to. Each frame is composed where it stands in the message.
pub struct AppendRequest {
    message: BytesMut,
    count: u32,
}

impl AppendRequest {
    /// A request without appends, with room for some of `frame_bytes`.
    pub fn new(device: DeviceId, writer: Writer, frame_bytes: usize) -> AppendRequest {
        let mut message = BytesMut::with_capacity(HEAD_BYTES + FIRST_ROOM * (PART_HEAD_BYTES + frame_bytes));
        device.put(&mut message);
        message.put_u8(APPEND);
        writer.put(&mut message);
        message.put_bytes(0, HEAD_BYTES - SESSION_AT);
        AppendRequest { message, count: 0 }
    }

    /// Adds an append, whose frame `fill` writes.
    pub fn add(&mut self, class: AppendClass, frame_bytes: usize, fill: impl FnOnce(&mut [u8])) {
        self.message.put_u8(class_number(class));
        self.message.put_u32_le(frame_bytes as u32);
        let start = self.message.len();
        self.message.resize(start + frame_bytes, 0);
        fill(&mut self.message[start..]);
        self.count += 1;
    }

    /// Bytes of a request of which this is the only append.
    pub const fn bytes_of_one(frame_bytes: usize) -> usize {
        HEAD_BYTES + PART_HEAD_BYTES + frame_bytes
    }

    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        self.message.len()
    }

    /// The message as it is sent, under this session.
    pub fn under(mut self, session: u64) -> Bytes {
        self.message[SESSION_AT..SESSION_AT + 8].copy_from_slice(&session.to_le_bytes());
        self.message[SESSION_AT + 8..HEAD_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.message.freeze()
    }

    /// What was sent, to be sent once more.
    pub fn again(message: Bytes, count: usize) -> AppendRequest {
        let message = message.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        AppendRequest { message, count: count as u32 }
    }
}

/// Reads the appends of a request, behind its session.
pub(super) fn take_parts(reader: &mut Reader) -> Result<Vec<AppendPart>, WireError> {
    let count = reader.count(PART_HEAD_BYTES, "appends")?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let class = reader.u8("class")?;
        let class = *AppendClass::ALL.get(class as usize).ok_or_else(|| reader.unknown("class", class))?;
        parts.push(AppendPart { class, frame: reader.bytes("frame")? });
    }
    Ok(parts)
}

fn class_number(class: AppendClass) -> u8 {
    match class {
        AppendClass::Data => 0,
        AppendClass::Tombstone => 1,
        AppendClass::Relocation => 2,
        AppendClass::Meta => 3,
    }
}

impl Wire for AppendAnswers {
    fn put(&self, out: &mut BytesMut) {
        out.put_u32_le(self.len() as u32);
        self.iter().for_each(|answer| put_result(answer, out));
    }

    fn take(reader: &mut Reader) -> Result<Self, WireError> {
        let count = reader.count(MIN_ANSWER_BYTES, "answers")?;
        (0..count).map(|_| take_result(reader)).collect()
    }
}
