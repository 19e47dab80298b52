//! Requests between the processes of a cluster: framed messages over TCP, with deadlines and backpressure; a twin in memory for simulations,
//! and a short cut within one process.
//!
//! ```text
//!   Caller ── RemoteCaller ── frames ── Network (TCP, or SimulatedNetwork) ── serve ── Service
//!      └───── LocalCaller ──────────────── a direct call ─────────────────────────────────┘
//!   Router: several services at one address
//!   TlsNetwork: certificates and encryption over another Network
//!   Guests: processes that are no nodes, with the key of one thing
//! ```
//!
//! Invariants
//! - Every call ends by its deadline. An error says whether the request may have been carried out: [`CallError::is_definite`].
//! - Only remaining time crosses the wire, never a moment: clocks of two machines are not compared.
//! - Nothing queues without a limit: calls of one caller, requests of one connection, connections of one server, bytes of one frame.
//! - A bad byte ends its connection. What was under way on it is unanswered; the next call connects anew.
//! - Requests of one connection begin in the order in which they were sent; answers come as they are ready. What must survive a reconnect in order
//!   numbers its requests ([`Outgoing`], [`Incoming`]).
#![forbid(unsafe_code)]

mod call;
mod connection;
mod frame;
mod guests;
mod handshakes;
mod hello;
mod local;
mod network;
mod remote;
mod resend;
mod router;
mod server;
mod simulated;
mod tls;
mod unix;

pub use call::{BoxFuture, CallError, Caller, Refusal, Request, Service};
pub use frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader, FrameKind, MAX_PAYLOAD_BYTES};
pub use guests::{Admitted, Guests, guest_cluster, guest_node, guest_number};
pub use handshakes::MAX_HANDSHAKES;
pub use hello::{Identity, PROTOCOL_VERSION};
pub use local::LocalCaller;
pub use network::{ByteStream, Listener, Network, TcpNetwork};
pub use remote::{MAX_CALLS_IN_FLIGHT, RemoteCaller, ServiceCaller};
pub use resend::{Arrival, Incoming, NeverSent, Outgoing, StreamNumber, WindowFull};
pub use router::{Router, ServiceTag};
pub use server::{MAX_CONNECTIONS, MAX_GUESTS, MAX_REQUESTS_PER_CONNECTION, serve, serve_with_guests};
pub use simulated::{LinkWeather, SimulatedNetwork};
pub use tls::{
    Authority, CERTIFICATE_VALIDITY, CLOCK_SKEW, CertificateError, GuestAuthority, HANDSHAKE_LIMIT, RENEW_AFTER, TlsNetwork,
};
pub use unix::{LONE_ADDRESS, UnixNetwork};

#[cfg(test)]
mod tests;
