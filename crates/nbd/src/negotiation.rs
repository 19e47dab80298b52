//! The handshake and the haggling over options, without I/O.
//!
//! ```text
//!           client flags           GO, EXPORT_NAME accepted
//!   Flags ───────────────▶ Option ──────────────────────────▶ Over
//!                           │  ▲
//!          List, Find, Enter│  │ listed, found, entered
//!                           ▼  │
//!                          Asking
//! ```
//!
//! The shell feeds bytes, calls [`Negotiation::step`] until it needs more of them, and sends what [`Negotiation::take_output`]
//! gives. A step that asks for something must be answered before the next one.

mod fields;
mod option;
mod replies;

use bytes::{Buf, Bytes, BytesMut};

use crate::Violation;
use crate::export::{ExportFacts, ListedExport, OpenError};
use crate::limits::{MAX_LIST_REPLY_BYTES, MAX_OPTION_BYTES, MAX_OPTIONS, MAX_SKIPPED_OPTION_BYTES};
use crate::protocol::{INIT_MAGIC, OPTION_MAGIC, handshake, option as code, option_reply};
use crate::request::RequestRules;
use option::{InfoRequest, MetaRequest};

/// Bytes of [`greeting`].
pub const GREETING_BYTES: usize = 18;
const OPTION_HEADER_BYTES: usize = 16;
const OFFERED: u16 = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;

/// The server's first bytes.
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&OFFERED.to_be_bytes());
    bytes
}

/// One connection's negotiation.
#[derive(Debug)]
pub struct Negotiation {
    input: BytesMut,
    output: BytesMut,
    /// Bytes of the connection before `input`.
    offset: u64,
    state: State,
    option_count: u32,
    leaves_zeroes_out: bool,
    is_structured: bool,
    /// The export, as the client called it, for which `base:allocation` was chosen last.
    mapped_export: Option<String>,
    is_stopping: bool,
}

#[derive(Debug)]
enum State {
    Flags,
    Option,
    /// The data of an option that is too long to look at.
    Skip {
        option: u32,
        rest: u32,
    },
    Asking(Question),
    Over,
}

#[derive(Debug)]
enum Question {
    List,
    Info(InfoRequest),
    Meta(MetaRequest),
    ExportName(String),
}

/// What the shell has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NegotiationOutput {
    /// Send the output, then read more.
    NeedBytes,
    /// Answer with [`Negotiation::listed`].
    List,
    /// Answer with [`Negotiation::found`].
    Find { name: String },
    /// The client enters: answer with [`Negotiation::entered`].
    Enter { name: String },
    /// Send the output, then end the connection.
    End,
}

/// What client and server have agreed on.
#[derive(Debug)]
pub struct Agreed {
    pub rules: RequestRules,
    /// What the client has sent beyond the negotiation.
    pub input: BytesMut,
    /// Bytes of the connection before `input`.
    pub offset: u64,
}

impl Default for Negotiation {
    fn default() -> Negotiation {
        Negotiation {
            input: BytesMut::new(),
            output: BytesMut::new(),
            offset: 0,
            state: State::Flags,
            option_count: 0,
            leaves_zeroes_out: false,
            is_structured: false,
            mapped_export: None,
            is_stopping: false,
        }
    }
}

impl Negotiation {
    /// Where the shell puts what it reads.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// What is to be sent.
    pub fn take_output(&mut self) -> Bytes {
        self.output.split().freeze()
    }

    /// From here on each option but the last is refused.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Goes on as far as the input and the answers allow.
    pub fn step(&mut self) -> Result<NegotiationOutput, Violation> {
        loop {
            let output = match &mut self.state {
                State::Flags => self.take_flags()?,
                State::Option => self.take_option()?,
                State::Skip { option, rest } => {
                    let skipped = (*rest as usize).min(self.input.len());
                    let option = *option;
                    *rest -= skipped as u32;
                    let is_done = *rest == 0;
                    self.consume(skipped);
                    if !is_done {
                        return Ok(NegotiationOutput::NeedBytes);
                    }
                    self.state = State::Option;
                    self.refuse(option, option_reply::ERR_TOO_BIG, "the data of this option is too long");
                    None
                }
                State::Asking(question) => panic!("a step before the answer to {question:?}"),
                State::Over => return Ok(NegotiationOutput::End),
            };
            if let Some(output) = output {
                return Ok(output);
            }
        }
    }

    /// The answer to [`NegotiationOutput::List`].
    pub fn listed(&mut self, listed: Result<Vec<ListedExport>, OpenError>) {
        let State::Asking(Question::List) = std::mem::replace(&mut self.state, State::Option) else {
            panic!("no list was asked for")
        };
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return self.refuse_open(code::LIST, &error),
        };
        let length =
            listed.iter().map(|export| replies::server_bytes(export.name.len(), export.description.len())).sum::<usize>();
        if length > MAX_LIST_REPLY_BYTES {
            return self.refuse(code::LIST, option_reply::ERR_TOO_BIG, "there are too many exports to list");
        }
        for export in &listed {
            replies::server(&mut self.output, &export.name, &export.description);
        }
        self.acknowledge(code::LIST);
    }

    /// The answer to [`NegotiationOutput::Find`]: the export's name and facts.
    pub fn found(&mut self, found: Result<(&str, ExportFacts), OpenError>) {
        match std::mem::replace(&mut self.state, State::Option) {
            State::Asking(Question::Info(request)) => match found {
                Ok((name, facts)) => {
                    self.inform(&request, name, &facts);
                    self.acknowledge(code::INFO);
                }
                Err(error) => self.refuse_open(code::INFO, &error),
            },
            State::Asking(Question::Meta(request)) => match found {
                Ok(_) => self.answer_contexts(request),
                Err(error) => self.refuse_open(request.option, &error),
            },
            other => panic!("no export was looked for: {other:?}"),
        }
    }

    /// The answer to [`NegotiationOutput::Enter`]. On success the negotiation is over once the output is sent.
    pub fn entered(&mut self, entered: Result<(&str, ExportFacts), OpenError>) -> Option<Agreed> {
        let (asked, request) = match std::mem::replace(&mut self.state, State::Over) {
            State::Asking(Question::ExportName(name)) => (name, None),
            State::Asking(Question::Info(request)) => (request.name.clone(), Some(request)),
            other => panic!("no client was to enter: {other:?}"),
        };
        let (name, facts) = match (entered, &request) {
            (Ok(entered), _) => entered,
            (Err(error), Some(_)) => {
                self.state = State::Option;
                self.refuse_open(code::GO, &error);
                return None;
            }
            // The protocol has no error reply here: the connection ends.
            (Err(_), None) => return None,
        };
        let rules = self.rules(&asked, facts);
        match request {
            Some(request) => {
                self.inform(&request, name, &rules.facts);
                self.acknowledge(code::GO);
            }
            None => replies::export_name(
                &mut self.output,
                rules.facts.size_bytes,
                rules.transmission_flags(),
                self.leaves_zeroes_out,
            ),
        }
        Some(Agreed { rules, input: std::mem::take(&mut self.input), offset: self.offset })
    }

    fn take_flags(&mut self) -> Result<Option<NegotiationOutput>, Violation> {
        if self.input.len() < 4 {
            return Ok(Some(NegotiationOutput::NeedBytes));
        }
        let found = self.input.get_u32();
        self.offset += 4;
        if found & !u32::from(OFFERED) != 0 {
            return Err(Violation::ClientFlags { found, offered: u32::from(OFFERED) });
        }
        // Clients that do not say that they know the fixed style get the same answers: the protocol allows it.
        self.leaves_zeroes_out = found & u32::from(handshake::NO_ZEROES) != 0;
        self.state = State::Option;
        Ok(None)
    }

    fn take_option(&mut self) -> Result<Option<NegotiationOutput>, Violation> {
        let Some(mut header) = self.input.get(..OPTION_HEADER_BYTES) else {
            // What can't become an option is told from its first bytes on.
            let expected = OPTION_MAGIC.to_be_bytes();
            let begun = &self.input[..self.input.len().min(8)];
            if *begun != expected[..begun.len()] {
                let mut found = [0; 8];
                found[..begun.len()].copy_from_slice(begun);
                return Err(Violation::OptionMagic { offset: self.offset, found: u64::from_be_bytes(found) });
            }
            return Ok(Some(NegotiationOutput::NeedBytes));
        };
        let (magic, option, length) = (header.get_u64(), header.get_u32(), header.get_u32());
        if magic != OPTION_MAGIC {
            return Err(Violation::OptionMagic { offset: self.offset, found: magic });
        }
        if length > MAX_SKIPPED_OPTION_BYTES {
            return Err(Violation::OptionLength { option, found: length });
        }
        let is_skipped = length > MAX_OPTION_BYTES;
        if !is_skipped && self.input.len() < OPTION_HEADER_BYTES + length as usize {
            return Ok(Some(NegotiationOutput::NeedBytes));
        }
        self.option_count += 1;
        if self.option_count > MAX_OPTIONS {
            return Err(Violation::TooManyOptions);
        }
        self.consume(OPTION_HEADER_BYTES);
        if is_skipped {
            if option == code::EXPORT_NAME {
                return Err(Violation::ExportName);
            }
            self.state = State::Skip { option, rest: length };
            return Ok(None);
        }
        let data = self.consume(length as usize);
        self.answer_option(option, &data)
    }

    fn answer_option(&mut self, option: u32, data: &[u8]) -> Result<Option<NegotiationOutput>, Violation> {
        if option == code::ABORT {
            self.acknowledge(option);
            self.state = State::Over;
            return Ok(Some(NegotiationOutput::End));
        }
        if self.is_stopping {
            if option == code::EXPORT_NAME {
                self.state = State::Over;
                return Ok(Some(NegotiationOutput::End));
            }
            self.refuse(option, option_reply::ERR_SHUTDOWN, "the server is shutting down");
            return Ok(None);
        }
        match option {
            code::EXPORT_NAME => {
                let name = fields::text(data).ok_or(Violation::ExportName)?.to_owned();
                self.state = State::Asking(Question::ExportName(name.clone()));
                Ok(Some(NegotiationOutput::Enter { name }))
            }
            code::LIST | code::STRUCTURED_REPLY | code::STARTTLS if !data.is_empty() => {
                self.refuse(option, option_reply::ERR_INVALID, "this option has no data");
                Ok(None)
            }
            code::LIST => {
                self.state = State::Asking(Question::List);
                Ok(Some(NegotiationOutput::List))
            }
            code::STRUCTURED_REPLY => {
                self.is_structured = true;
                self.acknowledge(option);
                Ok(None)
            }
            code::STARTTLS => {
                self.refuse(option, option_reply::ERR_UNSUP, "this server does not speak TLS");
                Ok(None)
            }
            code::INFO | code::GO => Ok(self.take_info(option, data)),
            code::LIST_META_CONTEXT | code::SET_META_CONTEXT => Ok(self.take_meta(option, data)),
            _ => {
                self.refuse(option, option_reply::ERR_UNSUP, "this server does not know this option");
                Ok(None)
            }
        }
    }

    fn take_info(&mut self, option: u32, data: &[u8]) -> Option<NegotiationOutput> {
        let Some(request) = InfoRequest::decode(option, data) else {
            self.refuse(option, option_reply::ERR_INVALID, "the data of this option is malformed");
            return None;
        };
        let name = request.name.clone();
        self.state = State::Asking(Question::Info(request));
        Some(if option == code::GO { NegotiationOutput::Enter { name } } else { NegotiationOutput::Find { name } })
    }

    fn take_meta(&mut self, option: u32, data: &[u8]) -> Option<NegotiationOutput> {
        if option == code::SET_META_CONTEXT {
            // It replaces what was set before, also when it fails.
            self.mapped_export = None;
        }
        if !self.is_structured {
            self.refuse(option, option_reply::ERR_INVALID, "negotiate structured replies first");
            return None;
        }
        let request = match MetaRequest::decode(option, data) {
            Ok(request) => request,
            Err(why) => {
                self.refuse(option, option_reply::ERR_INVALID, why);
                return None;
            }
        };
        let name = request.name.clone();
        self.state = State::Asking(Question::Meta(request));
        Some(NegotiationOutput::Find { name })
    }

    fn answer_contexts(&mut self, request: MetaRequest) {
        let is_set = request.option == code::SET_META_CONTEXT;
        if request.wants_allocation {
            replies::meta_context(&mut self.output, request.option, is_set);
            if is_set {
                self.mapped_export = Some(request.name);
            }
        }
        self.acknowledge(request.option);
    }

    fn rules(&self, asked: &str, facts: ExportFacts) -> RequestRules {
        let has_map = self.mapped_export.as_deref() == Some(asked);
        RequestRules::new(facts, self.is_structured, has_map)
    }

    fn inform(&mut self, request: &InfoRequest, name: &str, facts: &ExportFacts) {
        let rules = self.rules(&request.name, facts.clone());
        replies::information(&mut self.output, request, name, facts, rules.transmission_flags());
    }

    fn acknowledge(&mut self, option: u32) {
        replies::header(&mut self.output, option, option_reply::ACK, 0);
    }

    fn refuse(&mut self, option: u32, error: u32, why: &str) {
        replies::error(&mut self.output, option, error, why);
    }

    fn refuse_open(&mut self, option: u32, error: &OpenError) {
        let reply = match error {
            OpenError::NoSuchExport | OpenError::Unavailable(_) => option_reply::ERR_UNKNOWN,
            OpenError::NotPermitted(_) => option_reply::ERR_POLICY,
            OpenError::ShuttingDown => option_reply::ERR_SHUTDOWN,
        };
        self.refuse(option, reply, &error.to_string());
    }

    fn consume(&mut self, count: usize) -> Bytes {
        self.offset += count as u64;
        self.input.split_to(count).freeze()
    }
}

#[cfg(test)]
mod tests;
