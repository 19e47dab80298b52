//! The first frame in each direction: protocol version, cluster and node.
//!
//! ```text
//! 0         4            20              36
//! ├ version ┼ cluster id ┼ node identity ┤
//! ```
//!
//! On a connection with certificates a hello must say what the peer's certificate says.

use crate::connection::{ConnectionError, FrameReader, FrameWriter};
use crate::frame::FrameKind;
use crate::network::ByteStream;
use env::Env;
use std::time::Duration;
use types::{ClusterId, NodeIdentity};

/// Version of frames and of what they carry; 4: gateways tell of damaged copies, and which number they draw next; 3: refusals that come
/// too early are told apart; 2: hellos name the node; 1: the first.
pub const PROTOCOL_VERSION: u32 = 4;
/// How long a peer may take to say who it is.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);

const HELLO_BYTES: usize = 36;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeIdentity,
}

/// Exchanges hellos on a new connection. Both ends speak at once, so neither waits for the other to begin. `expected` is the node that must be
/// there; none: any of the cluster.
pub(crate) async fn greet(
    env: &Env,
    stream: Box<dyn ByteStream>,
    own: Identity,
    expected: Option<NodeIdentity>,
) -> Result<(FrameReader, FrameWriter), ConnectionError> {
    let certified = stream.certified();
    let (read, write) = tokio::io::split(stream);
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(env, write));
    let exchange = async {
        let mut hello = [0; HELLO_BYTES];
        hello[..4].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        hello[4..20].copy_from_slice(&own.cluster.0);
        hello[20..].copy_from_slice(&own.node.0);
        writer.write(FrameKind::Hello, 0, 0, &hello).await?;
        let (header, payload) = reader.next().await?;
        let theirs: &[u8; HELLO_BYTES] = match payload.as_ref().try_into() {
            Ok(theirs) if header.kind == FrameKind::Hello => theirs,
            _ => return Err(ConnectionError::Unexpected(header.kind)),
        };
        judge(theirs, own, certified, expected)
    };
    let outcome = tokio::select! {
        biased;
        outcome = exchange => outcome,
        () = env.sleep(HELLO_LIMIT) => Err(ConnectionError::Silent(HELLO_LIMIT)),
    };
    outcome.map(|()| (reader, writer))
}

/// Whether this is the peer that is meant.
fn judge(
    theirs: &[u8; HELLO_BYTES],
    own: Identity,
    certified: Option<Identity>,
    expected: Option<NodeIdentity>,
) -> Result<(), ConnectionError> {
    let found = u32::from_le_bytes(theirs[..4].try_into().expect("four bytes"));
    if found != PROTOCOL_VERSION {
        return Err(ConnectionError::Version { expected: PROTOCOL_VERSION, found });
    }
    let cluster = ClusterId(theirs[4..20].try_into().expect("sixteen bytes"));
    let said = Identity { cluster, node: NodeIdentity(theirs[20..].try_into().expect("sixteen bytes")) };
    if said.cluster != own.cluster {
        return Err(ConnectionError::Cluster { expected: own.cluster, found: said.cluster });
    }
    if let Some(certified) = certified.filter(|certified| *certified != said) {
        return Err(ConnectionError::Certificate { certified, said });
    }
    match expected.filter(|expected| *expected != said.node) {
        Some(expected) => Err(ConnectionError::Node { expected, found: said.node }),
        None => Ok(()),
    }
}
