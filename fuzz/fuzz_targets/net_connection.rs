//! Both ends of a connection of `net`, against a peer that sends what the input says: nothing panics, a server answers what was asked
//! and nothing else, a caller takes no answer that was not sent, and both come to an end. The clock is stopped, so that nobody
//! waits.
#![no_main]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use env::Env;
use libfuzzer_sys::{arbitrary, fuzz_target};
use net::{
    BoxFuture, ByteStream, Caller, FRAME_HEADER_BYTES, FrameHeader, FrameKind, Identity, Listener, Network, PROTOCOL_VERSION,
    Refusal, RemoteCaller, Request, Service, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use types::{ClusterId, NodeIdentity};

const CLUSTER: Identity = Identity { cluster: ClusterId([7; 16]), node: NodeIdentity([8; 16]) };
const PIPE_BYTES: usize = 64 * 1024;
/// By then, all that will be answered is.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Arbitrary, Debug)]
enum Piece {
    Raw(Vec<u8>),
    /// A header with the right checksum over a length and a checksum of the payload that may lie.
    Frame {
        kind: u8,
        id: u8,
        budget_ms: u32,
        payload: Vec<u8>,
        length: Option<u32>,
        payload_crc: Option<u32>,
    },
}

#[derive(Arbitrary, Debug)]
struct Input {
    says_hello: bool,
    pieces: Vec<Piece>,
}

fuzz_target!(|input: Input| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let sent = bytes_of(&input);
    runtime.block_on(against_a_server(&sent));
    runtime.block_on(against_a_caller(&sent));
});

fn bytes_of(input: &Input) -> Vec<u8> {
    let mut bytes = Vec::new();
    if input.says_hello {
        let hello = hello();
        bytes.extend_from_slice(&FrameHeader::new(FrameKind::Hello, 0, 0, &hello).encode());
        bytes.extend_from_slice(&hello);
    }
    for piece in &input.pieces {
        match piece {
            Piece::Raw(raw) => bytes.extend_from_slice(raw),
            Piece::Frame { kind, id, budget_ms, payload, length, payload_crc } => {
                let kinds = [
                    FrameKind::Request,
                    FrameKind::Response,
                    FrameKind::Refusal,
                    FrameKind::EarlyRefusal,
                    FrameKind::Alive,
                    FrameKind::Hello,
                ];
                let header = FrameHeader {
                    kind: kinds[usize::from(*kind) % kinds.len()],
                    id: u64::from(*id),
                    payload_bytes: length.unwrap_or(payload.len() as u32),
                    budget_ms: *budget_ms,
                    payload_crc: payload_crc.unwrap_or(checksum(CrcAlgorithm::Crc32Iscsi, payload) as u32),
                };
                bytes.extend_from_slice(&header.encode());
                bytes.extend_from_slice(payload);
            }
        }
    }
    bytes
}

fn hello() -> Vec<u8> {
    [&PROTOCOL_VERSION.to_le_bytes()[..], &CLUSTER.cluster.0].concat()
}

/// The frames up to the first that is bad or not all there, and whether there is none such.
fn frames(bytes: &[u8]) -> (Vec<(FrameHeader, &[u8])>, bool) {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some((header, after)) = rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let Ok(header) = FrameHeader::decode(header) else { break };
        let Some((payload, after)) = after.split_at_checked(header.payload_bytes as usize) else { break };
        if header.check(payload).is_err() {
            break;
        }
        found.push((header, payload));
        rest = after;
    }
    (found, rest.is_empty())
}

/// What a peer that says the right hello has sent after it, and whether all of it is sound.
fn after_hello(bytes: &[u8]) -> (Vec<(FrameHeader, &[u8])>, bool) {
    let (mut frames, is_sound) = frames(bytes);
    match frames.first() {
        Some((header, payload)) if header.kind == FrameKind::Hello && *payload == hello() => {
            frames.remove(0);
            (frames, is_sound)
        }
        _ => (Vec::new(), false),
    }
}

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move { Ok(request.payload) })
    }
}

struct OneConnection(Option<DuplexStream>);

impl Listener for OneConnection {
    fn address(&self) -> String {
        "server".to_owned()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            match self.0.take() {
                Some(stream) => Ok(Box::new(stream) as Box<dyn ByteStream>),
                None => std::future::pending().await,
            }
        })
    }
}

async fn against_a_server(sent: &[u8]) {
    let env = Env::simulated(1);
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let server = serve(env.clone(), Box::new(OneConnection(Some(theirs))), Arc::new(Echo), CLUSTER);
    let exchange = async {
        let (mut reader, mut writer) = tokio::io::split(ours);
        let send = async {
            // The server may have ended the connection by then.
            if writer.write_all(sent).await.is_ok() {
                env.sleep(PATIENCE).await;
            }
            drop(writer.shutdown().await);
        };
        let mut answers = Vec::new();
        let (_, read) = tokio::join!(send, reader.read_to_end(&mut answers));
        read.expect("a pipe in memory breaks by its end alone");
        answers
    };
    let answers = tokio::select! {
        answers = exchange => answers,
        () = server => unreachable!("a server serves until it is dropped"),
    };
    judge(sent, &answers);
}

fn judge(sent: &[u8], answers: &[u8]) {
    let (answers, is_sound) = frames(answers);
    assert!(is_sound, "the server sent bytes that are no frame");
    let (asked, is_all_sound) = after_hello(sent);
    let is_all_asked = is_all_sound && asked.iter().all(|(header, _)| header.kind == FrameKind::Request);
    let mut open: Vec<_> = asked.into_iter().take_while(|(header, _)| header.kind == FrameKind::Request).collect();
    let ((first, own_hello), answers) = answers.split_first().expect("a server says who it is");
    assert!(first.kind == FrameKind::Hello && *own_hello == hello());
    for (answer, payload) in answers.iter().filter(|(header, _)| header.kind != FrameKind::Alive) {
        let is_echo = answer.kind == FrameKind::Response;
        assert!(is_echo || answer.kind == FrameKind::Refusal, "a server does not send {answer:?}");
        let position = open.iter().position(|(asked, content)| asked.id == answer.id && (!is_echo || content == payload));
        open.remove(position.unwrap_or_else(|| panic!("nobody asked for {answer:?}")));
    }
    assert!(!is_all_asked || open.is_empty(), "requests without an answer: {open:?}");
}

/// Connections to a peer that sends the bytes and then nothing more.
struct Speaker(Arc<[u8]>);

impl Network for Speaker {
    fn connect<'a>(&'a self, _address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        let (mut ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let sent = Arc::clone(&self.0);
        tokio::spawn(async move {
            // The first bytes of a request must have come, or the answer is to nothing.
            let (mut begin, mut rest) = ([0; FRAME_HEADER_BYTES], Vec::new());
            let heard = ours.read(&mut begin).await.is_ok();
            if heard && ours.write_all(&sent).await.is_ok() && ours.shutdown().await.is_ok() {
                drop(ours.read_to_end(&mut rest).await);
            }
        });
        Box::pin(std::future::ready(Ok(Box::new(theirs) as Box<dyn ByteStream>)))
    }

    fn listen<'a>(&'a self, _address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(std::future::ready(Ok(Box::new(OneConnection(None)) as Box<dyn Listener>)))
    }
}

async fn against_a_caller(sent: &[u8]) {
    let env = Env::simulated(1);
    let caller = RemoteCaller::new(&env, Arc::new(Speaker(sent.into())), "server", CLUSTER);
    let (answers, _) = after_hello(sent);
    let deadline = env.now() + PATIENCE;
    let (one, other) = tokio::join!(caller.call(Bytes::from("one"), deadline), caller.call(Bytes::from("other"), deadline));
    for answer in [one, other].into_iter().flatten() {
        let was_sent = answers.iter().any(|(header, payload)| header.kind == FrameKind::Response && *payload == answer);
        assert!(was_sent, "an answer that nobody sent: {answer:?}");
    }
}
