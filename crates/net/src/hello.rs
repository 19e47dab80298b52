//! The first frame in each direction: protocol version and cluster.
//!
//! ```text
//! 0        4           20
//! ├ version ┼ cluster id ┤
//! ```

use crate::connection::{ConnectionError, FrameReader, FrameWriter};
use crate::frame::FrameKind;
use crate::network::ByteStream;
use env::Env;
use std::time::Duration;
use types::ClusterId;

/// Version of frames and of what they carry; 1: the first.
pub const PROTOCOL_VERSION: u32 = 1;
/// How long a peer may take to say who it is.
pub(crate) const HELLO_LIMIT: Duration = Duration::from_secs(5);

const HELLO_BYTES: usize = 20;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
}

/// Exchanges hellos on a new connection. Both ends speak at once, so neither waits for the other to begin.
pub(crate) async fn greet(
    env: &Env,
    stream: Box<dyn ByteStream>,
    own: Identity,
) -> Result<(FrameReader, FrameWriter), ConnectionError> {
    let (read, write) = tokio::io::split(stream);
    let (mut reader, mut writer) = (FrameReader::new(read), FrameWriter::new(env, write));
    let exchange = async {
        let mut hello = [0; HELLO_BYTES];
        hello[..4].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        hello[4..].copy_from_slice(&own.cluster.0);
        writer.write(FrameKind::Hello, 0, 0, &hello).await?;
        let (header, payload) = reader.next().await?;
        let theirs: &[u8; HELLO_BYTES] = match payload.as_ref().try_into() {
            Ok(theirs) if header.kind == FrameKind::Hello => theirs,
            _ => return Err(ConnectionError::Unexpected(header.kind)),
        };
        let found = u32::from_le_bytes(theirs[..4].try_into().expect("four of twenty bytes"));
        if found != PROTOCOL_VERSION {
            return Err(ConnectionError::Version { expected: PROTOCOL_VERSION, found });
        }
        let found = ClusterId(theirs[4..].try_into().expect("sixteen of twenty bytes"));
        if found != own.cluster {
            return Err(ConnectionError::Cluster { expected: own.cluster, found });
        }
        Ok(())
    };
    let outcome = tokio::select! {
        outcome = exchange => outcome,
        () = env.sleep(HELLO_LIMIT) => Err(ConnectionError::Silent(HELLO_LIMIT)),
    };
    outcome.map(|()| (reader, writer))
}
