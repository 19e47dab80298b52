//! Strangers at both ends of plain connections.

use super::{HELLO_BYTES, HELLO_LIMIT, Hello, Identity, PROOF_BYTES};
use crate::frame::{FRAME_HEADER_BYTES, FrameKind};
use crate::{
    BoxFuture, ByteStream, CallError, Caller, FrameHeader, MAX_CONNECTIONS, Network, Refusal, RemoteCaller, Request, Service,
    SimulatedNetwork, TcpNetwork, serve,
};
use bytes::Bytes;
use env::Env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::{ClusterId, NodeIdentity};

const OWN: Identity = Identity { cluster: ClusterId([7; 16]), node: NodeIdentity([1; 16]) };
const SERVER: &str = "server";
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Counted(AtomicUsize);

impl Service for Counted {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(request.payload) })
    }
}

struct World {
    env: Env,
    network: SimulatedNetwork,
    service: Arc<Counted>,
}

impl World {
    async fn new() -> World {
        let env = Env::simulated(1);
        let (network, service) = (SimulatedNetwork::new(&env), Arc::<Counted>::default());
        let listener = network.listen(SERVER).await.unwrap();
        env.spawn(serve(env.clone(), listener, service.clone(), OWN));
        World { env, network, service }
    }

    async fn call(&self, address: &str) -> Result<Bytes, CallError> {
        let caller = RemoteCaller::new(&self.env, Arc::new(self.network.clone()), address, OWN);
        caller.call(Bytes::from("a request"), self.env.now() + LIMIT).await
    }

    /// Writes and stops; what comes until the server ends the connection.
    async fn answer_to(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.network.connect(SERVER).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        self.rest_of(&mut stream).await
    }

    /// What comes on a connection before it ends, as it has to.
    async fn rest_of(&self, stream: &mut Box<dyn ByteStream>) -> Vec<u8> {
        let mut rest = Vec::new();
        tokio::select! {
            biased;
            read = stream.read_to_end(&mut rest) => drop(read.unwrap()),
            () = self.env.sleep(LIMIT) => panic!("the connection goes on"),
        }
        rest
    }
}

fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader::new(kind, 0, 1_000, payload);
    [&header.encode()[..], payload].concat()
}

fn hello() -> Hello {
    Hello { value: [3; 16], node: NodeIdentity([2; 16]) }
}

fn shows(bytes: &[u8], value: ClusterId) -> bool {
    bytes.windows(value.0.len()).any(|window| window == value.0)
}

async fn frame_from(stream: &mut Box<dyn ByteStream>, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; FRAME_HEADER_BYTES + payload_bytes];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes.split_off(FRAME_HEADER_BYTES)
}

/// Caught: the server said hello first, and a hello was all that it took to be of the cluster.
#[tokio::test(start_paused = true)]
async fn a_stranger_who_calls_learns_nothing_that_lets_him_in() {
    let world = World::new().await;
    assert!(world.answer_to(b"").await.is_empty(), "who says nothing hears nothing");
    let request = frame(FrameKind::Request, b"let me in");
    // What he hears is all that he can say: whole, or the proof of it.
    for from in [0, HELLO_BYTES] {
        let mut stream = world.network.connect(SERVER).await.unwrap();
        stream.write_all(&frame(FrameKind::Hello, &hello().encode())).await.unwrap();
        let heard = frame_from(&mut stream, HELLO_BYTES + PROOF_BYTES).await;
        assert!(!shows(&heard, OWN.cluster));
        stream.write_all(&[frame(FrameKind::Hello, &heard[from..]), request.clone()].concat()).await.unwrap();
        assert!(world.rest_of(&mut stream).await.is_empty(), "from byte {from}");
    }
    assert_eq!(world.service.0.load(Ordering::SeqCst), 0);
    assert_eq!(world.call(SERVER).await.unwrap(), "a request");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_who_is_called_learns_nothing_and_is_told_nothing() {
    let world = World::new().await;
    let mut listener = world.network.listen("stranger").await.unwrap();
    let listening = world.env.spawn(async move {
        let mut stream = listener.accept().await.unwrap();
        let heard = frame_from(&mut stream, HELLO_BYTES).await;
        let echo = [&heard[..], &[0; PROOF_BYTES]].concat();
        stream.write_all(&frame(FrameKind::Hello, &echo)).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        (heard, rest)
    });
    let error = world.call("stranger").await.unwrap_err();
    assert!(error.is_definite() && error.to_string().contains("is not of this node's cluster"), "{error}");
    let (heard, rest) = listening.await.unwrap();
    assert!(!shows(&heard, OWN.cluster) && rest.is_empty(), "{rest:?}");
}

/// Copies a connection's bytes; those of the caller come back.
async fn listen_in(mut caller: Box<dyn ByteStream>, mut server: Box<dyn ByteStream>, frames: [usize; 3]) -> Vec<u8> {
    let mut said = Vec::new();
    for (number, payload_bytes) in frames.into_iter().enumerate() {
        let (from, to) = if number == 1 { (&mut server, &mut caller) } else { (&mut caller, &mut server) };
        let mut bytes = vec![0; FRAME_HEADER_BYTES + payload_bytes];
        from.read_exact(&mut bytes).await.unwrap();
        to.write_all(&bytes).await.unwrap();
        assert!(!shows(&bytes, OWN.cluster), "frame {number}");
        if number != 1 {
            said.extend(bytes);
        }
    }
    tokio::io::copy_bidirectional(&mut caller, &mut server).await.unwrap_or_default();
    said
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_on_a_connection_opens_no_other() {
    let world = World::new().await;
    let mut listener = world.network.listen("between").await.unwrap();
    let network = world.network.clone();
    let listening = world.env.spawn(async move {
        let (caller, server) = (listener.accept().await.unwrap(), network.connect(SERVER).await.unwrap());
        listen_in(caller, server, [HELLO_BYTES, HELLO_BYTES + PROOF_BYTES, PROOF_BYTES]).await
    });
    assert_eq!(world.call("between").await.unwrap(), "a request");
    let mut said = listening.await.unwrap();
    said.extend(frame(FrameKind::Request, b"let me in too"));
    let answer = world.answer_to(&said).await;
    assert_eq!(answer.len(), FRAME_HEADER_BYTES + HELLO_BYTES + PROOF_BYTES, "a number of its own, and an end");
    assert_eq!(world.service.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn who_speaks_another_version_learns_this_one() {
    let world = World::new().await;
    let mut other = hello().encode();
    other[0] ^= 1;
    let answer = world.answer_to(&frame(FrameKind::Hello, &other)).await;
    assert_eq!(answer.len(), FRAME_HEADER_BYTES + HELLO_BYTES, "no proof");
    assert!(Hello::decode(&answer[FRAME_HEADER_BYTES..]).is_ok());
}

/// Connections of strangers took all that a server has, and a hello that announced megabytes was gathered.
#[tokio::test(start_paused = true)]
async fn strangers_that_say_nothing_keep_nobody_out() {
    let world = World::new().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 10 {
        silent.push(world.network.connect(SERVER).await.unwrap());
        tokio::task::yield_now().await;
    }
    let before = world.env.now();
    assert_eq!(world.call(SERVER).await.unwrap(), "a request");
    assert!(world.env.now() - before < HELLO_LIMIT, "nobody waits for strangers");
    let (long, before) = (FrameHeader::new(FrameKind::Hello, 0, 0, &[0; 1 << 20]), world.env.now());
    world.answer_to(&long.encode()).await;
    assert!(world.env.now() - before < HELLO_LIMIT, "it ends at once, without the payload");
}

/// A node is down, and somebody has taken its address: he leads its callers to another node, and goes on in their place when both have proved themselves.
#[tokio::test]
async fn a_call_that_is_led_to_another_address_is_refused_by_both() {
    let env = Env::real();
    let (network, service) = (TcpNetwork, Arc::<Counted>::default());
    let listener = network.listen("127.0.0.1:0").await.unwrap();
    let address = listener.address();
    let serving = env.spawn(serve(env.clone(), listener, service.clone(), OWN));
    let call = |address: String| {
        let caller = RemoteCaller::new(&env, Arc::new(network), &address, OWN);
        let deadline = env.now() + LIMIT;
        async move { caller.call(Bytes::from("a request"), deadline).await }
    };
    assert_eq!(call(address.clone()).await.unwrap(), "a request");
    let mut between = network.listen("127.0.0.1:0").await.unwrap();
    let taken = between.address();
    let leading = env.spawn(async move {
        let (mut caller, mut server) = (between.accept().await.unwrap(), network.connect(&address).await.unwrap());
        tokio::io::copy_bidirectional(&mut caller, &mut server).await.unwrap_or_default()
    });
    let error = call(taken).await.unwrap_err();
    assert!(error.is_definite() && error.to_string().contains("is not of this node's cluster"), "{error}");
    let (_, answered) = leading.await.unwrap();
    assert_eq!(answered as usize, FRAME_HEADER_BYTES + HELLO_BYTES + PROOF_BYTES, "the server heard no proof");
    assert_eq!(service.0.load(Ordering::SeqCst), 1);
    serving.abort();
}
