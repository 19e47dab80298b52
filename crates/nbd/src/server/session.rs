//! The transmission phase of one connection: one task that decodes, starts, polls and writes.
//!
//! Each turn of the loop polls the operations under way, takes the requests that have come whole, reads the socket and writes what is
//! ready; it ends when a turn moves nothing. Requests stop being taken while the account is used up or too much output waits,
//! and then the socket is not read either.
//!
//! The session is over when no request can come any more, no operation is under way and the output is written or can't be.

mod replies;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, Sleep};

use super::account::Account;
use super::connection::ConnectionError;
use super::open_requests::{OpenRequest, OpenRequests, Slot};
use super::operation::{Operation, Part, Started};
use super::output::Output;
use super::stall::Stall;
use super::{NbdServer, Stop, stopped};
use crate::errno::Errno;
use crate::export::{BoxFuture, Export, Span};
use crate::limits::{MAX_WAITING_OUTPUT_BYTES, TICK, Timeouts};
use crate::negotiation::Agreed;
use crate::reply;
use crate::request::{Command, Cookie, RequestDecoder, RequestEvent};

/// One client at work.
pub(super) struct Session<'a, S> {
    socket: &'a mut S,
    export: &'a dyn Export,
    timeouts: Timeouts,
    decoder: RequestDecoder,
    account: Account,
    open: OpenRequests,
    operations: FuturesUnordered<Operation<'a>>,
    output: Output,
    input: Input,
    /// A request that waits for the account.
    held: Option<Held>,
    /// The write whose payload is due, and whether the account has its next piece.
    receiving: Option<Receiving>,
    stopping: Stopping,
    ticks: Interval,
    input_stall: Stall,
    output_stall: Stall,
    /// The socket does not take replies any more: why.
    broken: Option<ConnectionError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    /// The decoder may have an event.
    Decoding,
    /// The decoder needs bytes.
    Reading,
    /// Nothing more is taken.
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    Request { cookie: Cookie, command: Command },
    Read { slot: Slot, rest: Span, is_whole: bool },
}

#[derive(Clone, Copy, Debug)]
struct Receiving {
    slot: Slot,
    force_unit_access: bool,
    is_admitted: bool,
}

enum Stopping {
    No(BoxFuture<'static, Stop>),
    Restart { drain: Pin<Box<Sleep>> },
    End { drain: Pin<Box<Sleep>>, grace: Pin<Box<Sleep>> },
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin + Send> Session<'a, S> {
    pub fn new(
        server: &'a NbdServer,
        socket: &'a mut S,
        export: &'a dyn Export,
        agreed: Agreed,
        mut stop: watch::Receiver<Stop>,
    ) -> Session<'a, S> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Session {
            socket,
            export,
            timeouts: server.config.timeouts,
            decoder: RequestDecoder::new(agreed.rules, agreed.input, agreed.offset),
            account: Account::new(&server.pool, &server.config.limits),
            open: OpenRequests::default(),
            operations: FuturesUnordered::new(),
            output: Output::default(),
            input: Input::Decoding,
            held: None,
            receiving: None,
            stopping: Stopping::No(Box::pin(async move { stopped(&mut stop).await })),
            ticks,
            input_stall: Stall::default(),
            output_stall: Stall::default(),
            broken: None,
        }
    }

    /// Serves until the client leaves, the connection breaks or the server stops.
    pub async fn run(mut self) -> Result<(), ConnectionError> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        loop {
            if let Poll::Ready(given_up) = self.poll_timers(cx) {
                return Poll::Ready(Err(given_up));
            }
            let mut moved = self.poll_operations(cx);
            moved |= self.take_requests(cx);
            moved |= self.poll_read(cx);
            moved |= self.poll_write(cx);
            if self.is_over(cx) {
                return Poll::Ready(self.broken.take().map_or(Ok(()), Err));
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let is_quiet = self.operations.is_empty() && self.held.is_none() && self.output.is_empty();
        if !is_quiet || self.input == Input::Over {
            return is_quiet;
        }
        match &mut self.stopping {
            Stopping::End { grace, .. } => grace.as_mut().poll(cx).is_ready(),
            Stopping::No(_) | Stopping::Restart { .. } => false,
        }
    }

    /// Ready when the connection is given up.
    fn poll_timers(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        match &mut self.stopping {
            Stopping::No(order) => {
                if let Poll::Ready(stop) = order.as_mut().poll(cx) {
                    self.stop(stop);
                    return self.poll_timers(cx);
                }
            }
            Stopping::Restart { drain } | Stopping::End { drain, .. } => {
                if drain.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(ConnectionError::Drained(self.timeouts.drain));
                }
            }
        }
        while self.ticks.poll_tick(cx).is_ready() {
            let limit = self.timeouts.stall;
            let owes_input = self.input == Input::Reading && self.decoder.is_within_request();
            let owes_output = !self.output.is_empty();
            if self.input_stall.tick(owes_input, limit) || self.output_stall.tick(owes_output, limit) {
                self.give_up_socket(ConnectionError::Stalled(limit));
            }
        }
        Poll::Pending
    }

    fn stop(&mut self, stop: Stop) {
        let drain = Box::pin(tokio::time::sleep(self.timeouts.drain));
        self.stopping = if stop == Stop::Restart {
            self.input = Input::Over;
            Stopping::Restart { drain }
        } else {
            Stopping::End { drain, grace: Box::pin(tokio::time::sleep(self.timeouts.grace)) }
        };
    }

    fn poll_operations(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.operations.is_empty()
            && let Poll::Ready(Some((part, result))) = self.operations.poll_next_unpin(cx)
        {
            self.finish(part, result);
            moved = true;
        }
        moved
    }

    /// Starts what has come, as far as the account and the output allow.
    fn take_requests(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        loop {
            if let Some(held) = self.held.take() {
                self.held = self.start(held, cx);
                if self.held.is_some() {
                    return moved;
                }
                moved = true;
            }
            if self.input != Input::Decoding || self.output.waiting_bytes() > MAX_WAITING_OUTPUT_BYTES {
                return moved;
            }
            if !self.admit_piece(cx) {
                return moved;
            }
            match self.decoder.next_event() {
                Ok(Some(event)) => self.take_event(event),
                Ok(None) => self.input = Input::Reading,
                Err(violation) => {
                    tracing::debug!(%violation, "nothing more is read");
                    self.input = Input::Over;
                }
            }
            moved = true;
        }
    }

    /// Reserves memory for the piece of a payload that comes next.
    fn admit_piece(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(receiving) = self.receiving.as_mut().filter(|receiving| !receiving.is_admitted) else { return true };
        let bytes = self.decoder.next_piece_bytes().expect("the payload is due");
        receiving.is_admitted = self.account.poll_bytes(cx, bytes).is_ready();
        receiving.is_admitted
    }

    fn take_event(&mut self, event: RequestEvent) {
        match event {
            RequestEvent::Request { cookie, .. } if matches!(self.stopping, Stopping::End { .. }) => {
                self.decoder.skip_payload();
                self.refuse(cookie, Errno::Shutdown, "the server is shutting down");
            }
            RequestEvent::Request { cookie, command } => self.held = Some(Held::Request { cookie, command }),
            RequestEvent::Payload { offset, data, is_last } => {
                let receiving = self.receiving.as_mut().expect("a payload belongs to a write");
                receiving.is_admitted = false;
                let receiving = *receiving;
                if is_last {
                    self.receiving = None;
                }
                self.write(receiving, offset, data, is_last);
            }
            RequestEvent::Refused { cookie, error, why } => self.refuse(cookie, error, why),
            RequestEvent::Disconnect => self.input = Input::Over,
        }
    }

    fn refuse(&mut self, cookie: Cookie, error: Errno, why: &'static str) {
        tracing::debug!(?cookie, ?error, why, "request refused");
        let is_structured = self.decoder.rules().is_structured;
        self.output.head(|out| {
            if is_structured { reply::error(out, cookie, error, why, None) } else { reply::simple(out, cookie, Some(error)) }
        });
    }

    /// Starts a request, or a part of it; returns what has to wait.
    fn start(&mut self, held: Held, cx: &mut Context<'_>) -> Option<Held> {
        let (cookie, command) = match held {
            Held::Read { slot, rest, is_whole } => return self.start_reads(slot, rest, is_whole, cx),
            Held::Request { cookie, command } => (cookie, command),
        };
        if self.account.poll_request(cx).is_pending() {
            return Some(held);
        }
        let slot = self.open.insert(OpenRequest::new(cookie, command));
        let nothing = Span { offset: 0, length: 0 };
        let (export, limit) =
            (self.export, reply::descriptor_limit(matches!(command, Command::BlockStatus { is_one: true, .. })));
        let whole = |span| Part { slot, span };
        let (part, started) = match command {
            Command::Read { span, is_whole } => return self.start_reads(slot, span, is_whole, cx),
            Command::Write { force_unit_access, .. } => {
                self.receiving = Some(Receiving { slot, force_unit_access, is_admitted: false });
                return None;
            }
            Command::Flush => (whole(nothing), Started::change(whole(nothing), export.flush())),
            Command::Trim { span, force_unit_access } => {
                (whole(span), Started::change(whole(span), export.trim(span, force_unit_access)))
            }
            Command::Cache { span } => (whole(span), Started::change(whole(span), export.cache(span))),
            Command::WriteZeros { span, flags } => (whole(span), Started::change(whole(span), export.write_zeros(span, flags))),
            Command::BlockStatus { span, .. } => (whole(span), Started::map(whole(span), export.block_status(span, limit))),
        };
        self.launch(part, started, true);
        None
    }

    fn start_reads(&mut self, slot: Slot, mut rest: Span, is_whole: bool, cx: &mut Context<'_>) -> Option<Held> {
        let export = self.export;
        while rest.length > 0 {
            let (span, after) = if is_whole { (rest, Span { offset: rest.end(), length: 0 }) } else { rest.split_piece() };
            if self.account.poll_bytes(cx, span.length).is_pending() {
                return Some(Held::Read { slot, rest, is_whole });
            }
            rest = after;
            let part = Part { slot, span };
            self.launch(part, Started::read(part, export.read(span)), rest.length == 0);
        }
        None
    }

    fn write(&mut self, receiving: Receiving, offset: u64, data: bytes::Bytes, is_last: bool) {
        let export = self.export;
        let part = Part { slot: receiving.slot, span: Span { offset, length: data.len() as u32 } };
        self.launch(part, Started::change(part, export.write(offset, data, receiving.force_unit_access)), is_last);
    }

    fn launch(&mut self, part: Part, started: Started<'a>, is_last: bool) {
        let request = self.open.get(part.slot);
        request.parts += 1;
        request.is_all_started = is_last;
        match started {
            Started::Now(result) => self.finish(part, result),
            Started::Later(operation) => self.operations.push(operation),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> bool {
        if self.input != Input::Reading {
            return false;
        }
        let mut space = self.decoder.space();
        match pin!(self.socket.read_buf(&mut space)).poll(cx) {
            Poll::Pending => return false,
            Poll::Ready(Ok(count)) if count > 0 => {
                self.input_stall.moved(count);
                if !self.decoder.is_within_request() {
                    self.input_stall.settled();
                }
                self.input = Input::Decoding;
            }
            Poll::Ready(Ok(_)) => {
                if self.decoder.is_within_request() {
                    tracing::debug!("the connection ends within a request");
                }
                self.input = Input::Over;
            }
            Poll::Ready(Err(error)) => self.give_up_socket(error.into()),
        }
        true
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while !self.output.is_empty() {
            match self.output.poll_write(Pin::new(&mut *self.socket), cx) {
                Poll::Pending => return moved,
                Poll::Ready(Ok(written)) => {
                    self.account.end_bytes(written.freed_bytes);
                    self.output_stall.moved(written.bytes);
                }
                Poll::Ready(Err(error)) => self.give_up_socket(error.into()),
            }
            moved = true;
        }
        if moved {
            self.output_stall.settled();
        }
        moved
    }

    /// The client is gone: nothing more is read or written, and what is under way is awaited.
    fn give_up_socket(&mut self, error: ConnectionError) {
        self.input = Input::Over;
        self.held = None;
        self.account.stop_waiting();
        let held_bytes = self.output.clear();
        self.account.end_bytes(held_bytes);
        self.broken.get_or_insert(error);
    }
}
