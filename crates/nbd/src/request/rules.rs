//! What a client may ask for, by what was negotiated.

use super::{Command, Header};
use crate::errno::Errno;
use crate::export::{ExportFacts, Span, WriteZerosFlags};
use crate::limits::{MAX_PAYLOAD_BYTES, MINIMUM_BLOCK_BYTES};
use crate::protocol::{command, command_flag, transmission};

/// What holds for the requests of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRules {
    pub facts: ExportFacts,
    pub is_structured: bool,
    /// Whether the client has chosen `base:allocation` for this export.
    pub has_map: bool,
}

type Refusal = (Errno, &'static str);

impl RequestRules {
    pub fn new(facts: ExportFacts, is_structured: bool, has_map: bool) -> RequestRules {
        assert!(facts.size_bytes.is_multiple_of(u64::from(MINIMUM_BLOCK_BYTES)), "an export has whole blocks");
        assert!(i64::try_from(facts.size_bytes).is_ok(), "clients count bytes in 63 bits");
        RequestRules { facts, is_structured, has_map }
    }

    /// What the client is told that it may ask for.
    pub fn transmission_flags(&self) -> u16 {
        let facts = &self.facts;
        let always = transmission::HAS_FLAGS | transmission::SEND_FLUSH | transmission::SEND_FUA;
        let is_writable = !facts.is_read_only;
        [
            (facts.is_read_only, transmission::READ_ONLY),
            (is_writable && facts.can_trim, transmission::SEND_TRIM),
            (is_writable, transmission::SEND_WRITE_ZEROES),
            (is_writable && facts.can_zero_fast, transmission::SEND_FAST_ZERO),
            (self.is_structured, transmission::SEND_DF),
            (facts.is_coherent_across_connections, transmission::CAN_MULTI_CONN),
            (facts.can_cache, transmission::SEND_CACHE),
        ]
        .iter()
        .fold(always, |flags, (is_set, flag)| if *is_set { flags | flag } else { flags })
    }

    /// The command, or why it is refused.
    pub(super) fn judge(&self, header: &Header) -> Result<Command, Refusal> {
        let (span, facts) = (header.span, &self.facts);
        self.check_kind(header.kind)?;
        self.check_flags(header)?;
        let force_unit_access = header.flags & command_flag::FUA != 0;
        match header.kind {
            command::READ => {
                self.check_span(span, Errno::Invalid)?;
                self.check_read_length(span)?;
                let is_whole = !self.is_structured || header.flags & command_flag::DF != 0;
                Ok(Command::Read { span, is_whole })
            }
            command::WRITE => {
                self.check_writable()?;
                if span.length > MAX_PAYLOAD_BYTES {
                    return Err((Errno::Invalid, "the write is longer than the maximum payload"));
                }
                self.check_span(span, Errno::NoSpace)?;
                Ok(Command::Write { span, force_unit_access })
            }
            command::FLUSH if span != (Span { offset: 0, length: 0 }) => {
                Err((Errno::Invalid, "a flush has no offset and no length"))
            }
            command::FLUSH => Ok(Command::Flush),
            command::TRIM => {
                self.check_writable()?;
                self.check_span(span, Errno::Invalid)?;
                Ok(Command::Trim { span, force_unit_access })
            }
            command::CACHE => {
                self.check_span(span, Errno::Invalid)?;
                Ok(Command::Cache { span })
            }
            command::WRITE_ZEROES => {
                self.check_writable()?;
                self.check_span(span, Errno::NoSpace)?;
                let keep_allocated = header.flags & command_flag::NO_HOLE != 0;
                let only_if_fast = header.flags & command_flag::FAST_ZERO != 0;
                Ok(Command::WriteZeros { span, flags: WriteZerosFlags { force_unit_access, keep_allocated, only_if_fast } })
            }
            command::BLOCK_STATUS => {
                self.check_span(span, Errno::Invalid)?;
                Ok(Command::BlockStatus { span, is_one: header.flags & command_flag::REQ_ONE != 0 })
            }
            _ => unreachable!("unknown commands were refused, of {facts:?}"),
        }
    }

    fn check_kind(&self, kind: u16) -> Result<(), Refusal> {
        let why = match kind {
            command::READ | command::WRITE | command::FLUSH | command::WRITE_ZEROES => return Ok(()),
            command::TRIM if self.facts.can_trim => return Ok(()),
            command::TRIM => "this export does not trim",
            command::CACHE if self.facts.can_cache => return Ok(()),
            command::CACHE => "this export does not cache",
            command::BLOCK_STATUS if self.has_map => return Ok(()),
            command::BLOCK_STATUS => "no metadata context was chosen for this export",
            _ => "unknown command",
        };
        Err((Errno::Invalid, why))
    }

    fn check_flags(&self, header: &Header) -> Result<(), Refusal> {
        // Forced unit access is allowed with each command: clients are known to set it on those that write nothing.
        let allowed = command_flag::FUA
            | match header.kind {
                command::READ if self.is_structured => command_flag::DF,
                command::WRITE_ZEROES if self.facts.can_zero_fast => command_flag::NO_HOLE | command_flag::FAST_ZERO,
                command::WRITE_ZEROES => command_flag::NO_HOLE,
                command::BLOCK_STATUS => command_flag::REQ_ONE,
                _ => 0,
            };
        if header.flags & !allowed == 0 { Ok(()) } else { Err((Errno::Invalid, "a flag that this command does not have")) }
    }

    fn check_writable(&self) -> Result<(), Refusal> {
        if self.facts.is_read_only { Err((Errno::NotPermitted, "this export is read-only")) } else { Ok(()) }
    }

    fn check_read_length(&self, span: Span) -> Result<(), Refusal> {
        if span.length <= MAX_PAYLOAD_BYTES {
            return Ok(());
        }
        let error = if self.is_structured { Errno::Overflow } else { Errno::Invalid };
        Err((error, "the read is longer than the maximum payload"))
    }

    fn check_span(&self, span: Span, beyond: Errno) -> Result<(), Refusal> {
        let block = u64::from(MINIMUM_BLOCK_BYTES);
        if span.length == 0 {
            return Err((Errno::Invalid, "the length is 0"));
        }
        if !span.offset.is_multiple_of(block) || !u64::from(span.length).is_multiple_of(block) {
            return Err((Errno::Invalid, "offset and length must be multiples of the minimum block size, 512"));
        }
        let end = span.offset.checked_add(u64::from(span.length));
        if end.is_none_or(|end| end > self.facts.size_bytes) {
            return Err((beyond, "the request reaches beyond the end of the export"));
        }
        Ok(())
    }
}
