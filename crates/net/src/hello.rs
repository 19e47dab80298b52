//! The first frames of a connection: protocol version, node, and that the peer is of this cluster.
//!
//! With certificates the handshake has shown who the peer is; both ends say it once more, at once, and must say what their certificates say:
//!
//! ```text
//! 0         4            20              36
//! ├ version ┼ cluster id ┼ node identity ┤
//! ```
//!
//! On a plain connection [`Identity::cluster`] is a key, and never crosses it. Each end draws a number, and proves that it has the key by a
//! keyed hash of both hellos, of which end it is and, on loopback, of the address that was connected to; so neither who listens, nor who connects or is
//! connected to, can show the proof of another connection or of the other end, and who has taken the address of a node that is down can't have
//! another node prove for it. Only the proof protects: who can change what is under way takes over what comes after it
//! (`docs/rfd/0008-tls-between-nodes.md`).
//!
//! ```text
//!            0         4        20              36      68
//!  caller  ─►├ version ┼ number ┼ node identity ┤
//!          ◄─├ version ┼ number ┼ node identity ┼ proof ┤  acceptor
//!          ─►├ proof ┤
//! ```

use crate::call::Service;
use crate::connection::{ConnectionError, FrameReader, FrameWriter};
use crate::frame::FrameKind;
use crate::guests::{Admitted, Guests, guest_number};
use crate::network::ByteStream;
use bytes::Bytes;
use env::Env;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use types::{ClusterId, NodeIdentity};

/// Version of frames and of what they carry; 6: proofs cover the address; 5: plain connections begin with proofs; 4: gateways tell of damaged copies, and which number they
/// draw next; 3: refusals that come too early are told apart; 2: hellos name the node; 1: the first.
pub const PROTOCOL_VERSION: u32 = 6;
/// How long a peer may take to say who it is.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);

const HELLO_BYTES: usize = 36;
const PROOF_BYTES: usize = blake3::OUT_LEN;
/// What the key is for: keys made of the same value for another purpose are others.
const KEY_CONTEXT: &str = "Trilith 2026-11 key of the proofs that begin a plain connection";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Who has another one is a stranger. On plain connections nobody else may know it.
    pub cluster: ClusterId,
    pub node: NodeIdentity,
}

/// Which end of a connection speaks.
#[derive(Clone, Copy)]
pub(crate) enum End<'a> {
    /// Who connected, to this node; none: to any of the cluster.
    Caller(Option<NodeIdentity>),
    /// It may let in guests too.
    Acceptor(Option<&'a dyn Guests>),
}

/// A connection whose peer is known.
pub(crate) struct Greeted {
    pub reader: FrameReader,
    pub writer: FrameWriter,
    /// What is served to a guest; none for a node of the cluster.
    pub service: Option<Arc<dyn Service>>,
}

/// Exchanges hellos on a new connection. What comes after that is of a node of the cluster, or of a guest.
pub(crate) async fn greet(
    env: &Env,
    stream: Box<dyn ByteStream>,
    own: Identity,
    end: End<'_>,
) -> Result<Greeted, ConnectionError> {
    let (certified, reached) = (stream.certified(), reached(&*stream, end));
    let (read, write) = tokio::io::split(stream);
    let mut frames = Frames { reader: FrameReader::new(read), writer: FrameWriter::new(env, write) };
    let exchange = async {
        match (certified, end) {
            (Some(certified), _) => frames.show(own, certified, end).await,
            (None, End::Caller(expected)) => {
                frames.prove_to_acceptor(Hello::drawn(env, own), own, reached, expected).await.map(|()| None)
            }
            (None, End::Acceptor(guests)) => frames.prove_to_caller(Hello::drawn(env, own), own, reached, guests).await,
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = exchange => outcome,
        () = env.sleep(HELLO_LIMIT) => Err(ConnectionError::Silent(HELLO_LIMIT)),
    };
    let service = outcome?;
    frames.reader.know_peer();
    let Frames { reader, writer } = frames;
    Ok(Greeted { reader, writer, service })
}

/// What is served to the peer with this id, and whose key it must have. Those of a node are `own` and no service.
fn admit(
    own: Identity,
    id: &[u8; 16],
    guests: Option<&dyn Guests>,
) -> Result<(Identity, Option<Arc<dyn Service>>), ConnectionError> {
    let Some(number) = guest_number(id) else { return Ok((own, None)) };
    let Admitted { cluster, service } = guests.and_then(|guests| guests.admit(number)).ok_or(ConnectionError::Guest(number))?;
    Ok((Identity { cluster, ..own }, Some(service)))
}

/// The address that was connected to, which both ends know. On loopback alone: elsewhere addresses are translated under way, and a plain connection is for
/// networks that are trusted.
fn reached(stream: &dyn ByteStream, end: End<'_>) -> Option<SocketAddr> {
    let ends = stream.ends()?;
    let reached = match end {
        End::Caller(_) => ends.peer,
        End::Acceptor(_) => ends.own,
    };
    let reached = SocketAddr::new(reached.ip().to_canonical(), reached.port());
    Some(reached).filter(|reached| reached.ip().is_loopback())
}

struct Frames {
    reader: FrameReader,
    writer: FrameWriter,
}

impl Frames {
    /// Says what the own certificate says; the peer has to say what its one says. Both ends speak at once, so neither waits for the other.
    async fn show(
        &mut self,
        own: Identity,
        certified: Identity,
        end: End<'_>,
    ) -> Result<Option<Arc<dyn Service>>, ConnectionError> {
        let (own, service) = match end {
            End::Caller(_) => (own, None),
            End::Acceptor(guests) => admit(own, &certified.cluster.0, guests)?,
        };
        self.write(&Hello { value: own.cluster.0, node: own.node }.encode()).await?;
        let hello = Hello::decode(&self.next().await?)?;
        let said = Identity { cluster: ClusterId(hello.value), node: hello.node };
        if said != certified {
            return Err(ConnectionError::Certificate { certified, said });
        }
        if let End::Caller(expected) = end {
            hello.must_be(expected)?;
        }
        Ok(service)
    }

    async fn prove_to_acceptor(
        &mut self,
        hello: Hello,
        own: Identity,
        reached: Option<SocketAddr>,
        expected: Option<NodeIdentity>,
    ) -> Result<(), ConnectionError> {
        self.write(&hello.encode()).await?;
        let answer = self.next().await?;
        let theirs = Hello::decode(&answer)?;
        let proofs = Proofs::of(own.cluster, hello, theirs, reached);
        check(&answer[HELLO_BYTES..], proofs.acceptor)?;
        theirs.must_be(expected)?;
        self.write(proofs.caller.as_bytes()).await
    }

    /// Says nothing before something has come, and proves nothing to what is no hello.
    async fn prove_to_caller(
        &mut self,
        hello: Hello,
        own: Identity,
        reached: Option<SocketAddr>,
        guests: Option<&dyn Guests>,
    ) -> Result<Option<Arc<dyn Service>>, ConnectionError> {
        let heard = self.next().await;
        let theirs = match heard.and_then(|payload| Hello::decode(&payload)) {
            // Another version's caller, and one that speaks TLS, learn from this what they have reached.
            Err(error @ (ConnectionError::Version { .. } | ConnectionError::Frame { .. })) => {
                self.write(&hello.encode()).await?;
                return Err(error);
            }
            decoded => decoded?,
        };
        let (own, service) = admit(own, &theirs.node.0, guests)?;
        let proofs = Proofs::of(own.cluster, theirs, hello, reached);
        self.write(&[&hello.encode()[..], proofs.acceptor.as_bytes()].concat()).await?;
        check(&self.next().await?, proofs.caller)?;
        Ok(service)
    }

    async fn write(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        self.writer.write(FrameKind::Hello, 0, 0, payload).await
    }

    async fn next(&mut self) -> Result<Bytes, ConnectionError> {
        let (header, payload) = self.reader.next().await?;
        match header.kind {
            FrameKind::Hello => Ok(payload),
            other => Err(ConnectionError::Unexpected(other)),
        }
    }
}

#[derive(Clone, Copy)]
struct Hello {
    /// The cluster where the connection has certificates, else a number that is drawn for this connection.
    value: [u8; 16],
    node: NodeIdentity,
}

impl Hello {
    fn drawn(env: &Env, own: Identity) -> Hello {
        let mut hello = Hello { value: [0; 16], node: own.node };
        env.fill_random(&mut hello.value);
        hello
    }

    fn encode(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        bytes[4..20].copy_from_slice(&self.value);
        bytes[20..].copy_from_slice(&self.node.0);
        bytes
    }

    /// What begins a payload. The version comes first in every version of it.
    fn decode(payload: &[u8]) -> Result<Hello, ConnectionError> {
        let bytes: &[u8; HELLO_BYTES] = payload.first_chunk().ok_or(ConnectionError::Unexpected(FrameKind::Hello))?;
        let found = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        if found != PROTOCOL_VERSION {
            return Err(ConnectionError::Version { expected: PROTOCOL_VERSION, found });
        }
        let value = bytes[4..20].try_into().expect("sixteen bytes");
        Ok(Hello { value, node: NodeIdentity(bytes[20..].try_into().expect("sixteen bytes")) })
    }

    /// Whether this is the peer that is meant.
    fn must_be(self, expected: Option<NodeIdentity>) -> Result<(), ConnectionError> {
        match expected.filter(|expected| *expected != self.node) {
            Some(expected) => Err(ConnectionError::Node { expected, found: self.node }),
            None => Ok(()),
        }
    }
}

/// What only who has the key can say about two hellos.
struct Proofs {
    caller: blake3::Hash,
    acceptor: blake3::Hash,
}

impl Proofs {
    fn of(cluster: ClusterId, caller: Hello, acceptor: Hello, reached: Option<SocketAddr>) -> Proofs {
        let key = blake3::derive_key(KEY_CONTEXT, &cluster.0);
        let hellos = [caller.encode(), acceptor.encode()].concat();
        let reached = reached.map_or_else(String::new, |address| address.to_string());
        let proof = |end: &[u8]| blake3::keyed_hash(&key, &[&hellos[..], end, reached.as_bytes()].concat());
        Proofs { caller: proof(b"caller"), acceptor: proof(b"acceptor") }
    }
}

fn check(said: &[u8], proof: blake3::Hash) -> Result<(), ConnectionError> {
    let said: [u8; PROOF_BYTES] = said.try_into().map_err(|_| ConnectionError::Unexpected(FrameKind::Hello))?;
    // Hashes are compared in constant time.
    if blake3::Hash::from_bytes(said) == proof { Ok(()) } else { Err(ConnectionError::Cluster) }
}

#[cfg(test)]
mod tests;
