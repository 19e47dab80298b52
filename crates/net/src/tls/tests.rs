//! Both ends of connections with certificates, and whom they refuse: over the simulated network with its clock stopped, and over TCP on loopback.
//! (Here alone TLS runs in a simulation: what is tested does not depend on its randomness.)

use super::certificate::{OwnCertificate, named_in};
use super::network::Clock;
use super::{Authority, CERTIFICATE_VALIDITY, CLOCK_SKEW, HANDSHAKE_LIMIT, RENEW_AFTER, TlsNetwork};
use crate::handshakes::MAX_HANDSHAKES;
use crate::{
    BoxFuture, ByteStream, CallError, Caller, Identity, Listener, Network, Refusal, RemoteCaller, Request, Service,
    SimulatedNetwork, TcpNetwork, serve,
};
use bytes::Bytes;
use env::Env;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use types::{ClusterId, NodeIdentity};

const CLUSTER: ClusterId = ClusterId([7; 16]);
const SECRET: [u8; 16] = [9; 16];
const OTHER_SECRET: [u8; 16] = [8; 16];
const NAME: &str = "node-1";
const SERVER: Identity = Identity { cluster: CLUSTER, node: NodeIdentity([1; 16]) };
const CALLER: Identity = Identity { cluster: CLUSTER, node: NodeIdentity([2; 16]) };
const SOON: Duration = Duration::from_secs(20);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Answers with the request; counts.
#[derive(Default)]
struct Echo(AtomicUsize);

impl Service for Echo {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(request.payload) })
    }
}

fn authority() -> Arc<Authority> {
    Arc::new(Authority::of(CLUSTER, &SECRET).unwrap())
}

/// A machine whose clock is this much ahead (behind, if negative).
fn machine(seconds_ahead: i64) -> Env {
    let env = Env::simulated(1);
    env.simulation().unwrap().set_wall_skew_ms(seconds_ahead * 1000);
    env
}

fn seconds(time: Duration) -> i64 {
    time.as_secs() as i64
}

/// A network with one server at [`NAME`].
struct World {
    env: Env,
    plain: SimulatedNetwork,
    service: Arc<Echo>,
}

impl World {
    /// The server shows `certificate`, or one that is as it should be, and calls itself `said`.
    async fn with(certificate: Option<OwnCertificate>, said: Identity) -> World {
        let env = Env::simulated(1);
        let world = World { plain: SimulatedNetwork::new(&env), service: Arc::default(), env };
        let certificate = certificate.unwrap_or_else(|| OwnCertificate::new(&world.env, authority(), SERVER));
        let network = world.showing(&authority(), certificate);
        let listener = network.listen(NAME).await.unwrap();
        world.env.spawn(serve(world.env.clone(), listener, world.service.clone(), said));
        world
    }

    async fn new() -> World {
        World::with(None, SERVER).await
    }

    fn showing(&self, trusted: &Authority, certificate: OwnCertificate) -> Arc<TlsNetwork> {
        let network = TlsNetwork::showing(&self.env, Arc::new(self.plain.clone()), trusted, Arc::new(certificate));
        Arc::new(network.unwrap())
    }

    /// Connections of a node that is as it should be.
    fn network(&self) -> Arc<TlsNetwork> {
        self.showing(&authority(), OwnCertificate::new(&self.env, authority(), CALLER))
    }

    async fn call(&self, network: Arc<dyn Network>, said: Identity) -> Result<Bytes, CallError> {
        let caller = RemoteCaller::new(&self.env, network, NAME, said);
        caller.call(Bytes::from("hello"), self.env.now() + SOON).await
    }

    /// The call fails for this reason, never reaches the service, and does no harm to others.
    async fn refuses(&self, network: Arc<dyn Network>, said: Identity, reason: &str) {
        let error = self.call(network, said).await.unwrap_err();
        assert!(error.is_definite() && error.to_string().contains(reason), "{reason}: {error}");
        assert_eq!(self.service.0.load(Ordering::SeqCst), 0, "{reason}");
    }

    async fn serves(&self) {
        assert_eq!(self.call(self.network(), CALLER).await.unwrap(), "hello");
    }
}

#[tokio::test]
async fn nodes_call_each_other_over_tcp() {
    let env = Env::real_with_cores(1);
    let tls = |own| TlsNetwork::new(&env, Arc::new(TcpNetwork), &authority(), own).unwrap();
    let listener = tls(SERVER).listen("127.0.0.1:0").await.unwrap();
    let address = listener.address();
    let serving = env.spawn(serve(env.clone(), listener, Arc::<Echo>::default(), SERVER));
    let caller = RemoteCaller::of_node(&env, Arc::new(tls(CALLER)), &address, CALLER, SERVER.node);
    for bytes in [0, 1, 70_000, 4 << 20] {
        let payload = Bytes::from((0..bytes).map(|at| at as u8).collect::<Vec<u8>>());
        assert!(caller.call(payload.clone(), env.now() + SOON).await.unwrap() == payload, "{bytes} bytes");
    }
    let other = RemoteCaller::of_node(&env, Arc::new(tls(CALLER)), &address, CALLER, CALLER.node);
    let error = other.call(Bytes::new(), env.now() + SOON).await.unwrap_err().to_string();
    assert!(error.contains("expected node 0202"), "{error}");
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn both_ends_know_whom_the_certificate_names() {
    let world = World::new().await;
    let stream = world.network().connect(NAME).await.unwrap();
    assert_eq!(stream.certified(), Some(SERVER));
    let mut listener = world.network().listen("other").await.unwrap();
    let network = world.network();
    let both = async { tokio::join!(network.connect("other"), listener.accept()) };
    let (near, far) = tokio::time::timeout(SOON, both).await.expect("both ends are done");
    assert_eq!((near.unwrap().certified(), far.unwrap().certified()), (Some(CALLER), Some(CALLER)));
}

/// A network whose callers' bytes are written down.
struct Overheard {
    plain: SimulatedNetwork,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Network for Overheard {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            let mut far = self.plain.connect(address).await?;
            let (near, mut middle) = tokio::io::duplex(64 * 1024);
            let heard = self.heard.clone();
            tokio::spawn(async move {
                let (mut to_far, mut to_near) = (vec![0; 4096], vec![0; 4096]);
                loop {
                    tokio::select! {
                        count = middle.read(&mut to_far) => {
                            let bytes = &to_far[..count.unwrap()];
                            heard.lock().extend_from_slice(bytes);
                            far.write_all(bytes).await.unwrap();
                        }
                        count = far.read(&mut to_near) => {
                            let bytes = &to_near[..count.unwrap()];
                            heard.lock().extend_from_slice(bytes);
                            middle.write_all(bytes).await.unwrap();
                        }
                    }
                }
            });
            let near: Box<dyn ByteStream> = Box::new(near);
            Ok(near)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        self.plain.listen(address)
    }
}

#[tokio::test(start_paused = true)]
async fn who_overhears_a_connection_reads_nothing() {
    let world = World::new().await;
    let plain = world.plain.listen("plain").await.unwrap();
    world.env.spawn(serve(world.env.clone(), plain, world.service.clone(), SERVER));
    for (address, is_tls) in [(NAME, true), ("plain", false)] {
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let overheard = Arc::new(Overheard { plain: world.plain.clone(), heard: heard.clone() });
        let network: Arc<dyn Network> = match is_tls {
            true => Arc::new(TlsNetwork::new(&world.env, overheard, &authority(), CALLER).unwrap()),
            false => overheard,
        };
        let caller = RemoteCaller::new(&world.env, network, address, CALLER);
        caller.call(Bytes::from("a precious text"), world.env.now() + SOON).await.unwrap();
        let heard = heard.lock();
        let hears = |what: &[u8]| heard.windows(what.len()).any(|bytes| bytes == what);
        assert!(heard.len() > 100);
        // The request, the cluster's id in either form, whoever speaks.
        for what in [&b"precious"[..], &CLUSTER.0, CLUSTER.to_string().as_bytes(), &CALLER.node.0, b"trilith"] {
            let is_said = !is_tls && (what == b"precious" || what == CALLER.node.0);
            assert_eq!(hears(what), is_said, "{address}: {}", String::from_utf8_lossy(what));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn strangers_are_refused_by_both_ends() {
    let world = World::new().await;
    let env = &world.env;
    let elsewhere = Identity { cluster: ClusterId([6; 16]), ..CALLER };
    let other_cluster = Arc::new(Authority::of(elsewhere.cluster, &SECRET).unwrap());
    let other_secret = Arc::new(Authority::of(CLUSTER, &OTHER_SECRET).unwrap());
    let honest = |authority: &Arc<Authority>, own| world.showing(authority, OwnCertificate::new(env, authority.clone(), own));
    // Who has another token trusts nobody here.
    world.refuses(honest(&other_cluster, elsewhere), elsewhere, "of another cluster").await;
    world.refuses(honest(&other_secret, CALLER), CALLER, "is the token wrong").await;
    // Who trusts this cluster without being of it is not taken.
    let pretending =
        |authority: &Arc<Authority>, own| world.showing(&self::authority(), OwnCertificate::new(env, authority.clone(), own));
    world.refuses(pretending(&other_cluster, elsewhere), CALLER, "does not take this node's certificate (UnknownCA)").await;
    world.refuses(pretending(&other_secret, CALLER), CALLER, "does not take this node's certificate (DecryptError)").await;
    // A certificate of the right authority that names another cluster.
    world.refuses(pretending(&authority(), elsewhere), CALLER, "closed the connection").await;
    // A certificate with one bit changed: in its names or key, and in its signature.
    for position in [200, 300, 400] {
        let certificate = OwnCertificate::new(env, authority(), CALLER);
        certificate.alter(|bytes| bytes[position] ^= 1);
        world.refuses(world.showing(&authority(), certificate), CALLER, "").await;
    }
    world.serves().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_is_refused_for_what_it_shows_or_says() {
    let env = Env::simulated(1);
    let authority_of = |secret| Arc::new(Authority::of(CLUSTER, secret).unwrap());
    let altered = OwnCertificate::new(&env, authority(), SERVER);
    altered.alter(|bytes| *bytes.last_mut().unwrap() ^= 1);
    let wrong_key = OwnCertificate::new(&env, authority_of(&OTHER_SECRET), SERVER);
    for certificate in [altered, wrong_key] {
        let world = World::with(Some(certificate), SERVER).await;
        world.refuses(world.network(), CALLER, "is the token wrong").await;
    }
    let elsewhere = Identity { cluster: ClusterId([6; 16]), ..SERVER };
    let world = World::with(Some(OwnCertificate::new(&env, authority(), elsewhere)), SERVER).await;
    world.refuses(world.network(), CALLER, "of another cluster").await;
    // Its hello must say what its certificate says.
    let world = World::with(None, Identity { node: NodeIdentity([5; 16]), ..SERVER }).await;
    world.refuses(world.network(), CALLER, "calls itself node 0505").await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_says_another_name_than_its_certificate_is_refused() {
    let world = World::new().await;
    let said = Identity { node: NodeIdentity([5; 16]), ..CALLER };
    let error = world.call(world.network(), said).await.unwrap_err();
    assert!(error.to_string().contains("the connection ended"), "{error}");
    assert_eq!(world.service.0.load(Ordering::SeqCst), 0);
    world.serves().await;
}

#[tokio::test(start_paused = true)]
async fn dates_are_those_of_the_wall_clock() {
    let (valid, skew) = (seconds(CERTIFICATE_VALIDITY), seconds(CLOCK_SKEW));
    // The other machine's certificate was made at this time by our clock: seen by the caller, and by the server.
    let server_made = async |ahead: i64| {
        let world = World::with(Some(OwnCertificate::new(&machine(ahead), authority(), SERVER)), SERVER).await;
        world.call(world.network(), CALLER).await.map_err(|error| error.to_string())
    };
    let caller_made = async |ahead: i64| {
        let world = World::new().await;
        let certificate = OwnCertificate::new(&machine(ahead), authority(), CALLER);
        world.call(world.showing(&authority(), certificate), CALLER).await.map_err(|error| error.to_string())
    };
    for ahead in [0, skew - 60, -skew, 60 - valid] {
        assert_eq!(server_made(ahead).await.unwrap(), "hello", "{ahead}");
        assert_eq!(caller_made(ahead).await.unwrap(), "hello", "{ahead}");
    }
    for (ahead, judgement) in [(skew + 60, "not valid yet"), (-valid - 60, "expired")] {
        let error = server_made(ahead).await.unwrap_err();
        assert!(error.contains(judgement) && error.contains("clocks of both machines"), "{ahead}: {error}");
        let error = caller_made(ahead).await.unwrap_err();
        assert!(error.contains("does not take this node's certificate (CertificateExpired)"), "{ahead}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_before_they_expire() {
    let world = World::new().await;
    let (network, clock) = (world.network(), world.env.simulation().unwrap());
    for year in 0..25 {
        clock.set_wall_skew_ms(year * 1000 * seconds(YEAR));
        assert_eq!(world.call(network.clone(), CALLER).await.unwrap(), "hello", "year {year}");
    }
    // A clock that is set back by decades, as when it was wrong at the start.
    clock.set_wall_skew_ms(0);
    assert_eq!(world.call(network, CALLER).await.unwrap(), "hello");

    let own = OwnCertificate::new(&world.env, authority(), CALLER);
    let shown = |seconds: i64| {
        clock.set_wall_skew_ms(seconds * 1000);
        own.current().unwrap().cert[0].clone()
    };
    let first = shown(0);
    assert_eq!(named_in(Some(std::slice::from_ref(&first))).unwrap(), CALLER);
    assert_eq!(shown(seconds(RENEW_AFTER) - 60), first);
    assert_ne!(shown(seconds(RENEW_AFTER) + 60), first);
}

#[tokio::test(start_paused = true)]
async fn plain_and_tls_do_not_talk() {
    let world = World::new().await;
    world.refuses(Arc::new(world.plain.clone()), CALLER, "the peer speaks TLS, and this end does not").await;
    world.serves().await;
    let listener = world.plain.listen("plain").await.unwrap();
    world.env.spawn(serve(world.env.clone(), listener, world.service.clone(), SERVER));
    let caller = RemoteCaller::new(&world.env, world.network(), "plain", CALLER);
    let error = caller.call(Bytes::new(), world.env.now() + SOON).await.unwrap_err();
    assert!(error.is_definite() && error.to_string().contains("speaks no TLS"), "{error}");
}

/// Without a certificate nobody is served, whatever else they do right.
#[tokio::test(start_paused = true)]
async fn a_caller_without_a_certificate_is_refused() {
    let world = World::new().await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_details(provider, Arc::new(Clock(world.env.clone())))
        .with_protocol_versions(&[&rustls::version::TLS13]);
    let roots = authority().roots().unwrap();
    let config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = rustls::pki_types::ServerName::try_from(authority().server_name()).unwrap();
    let mut stream = connector.connect(name, world.plain.connect(NAME).await.unwrap()).await.unwrap();
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
    world.serves().await;
}

#[tokio::test(start_paused = true)]
async fn corrupt_and_cut_off_handshakes_end_only_themselves() {
    // Somewhere in the handshake, the hellos, the request, the answer: about 1,900 bytes in all.
    for position in (0..1_850).step_by(83) {
        let world = World::new().await;
        world.plain.corrupt_after(NAME, position);
        let first = world.call(world.network(), CALLER).await;
        assert!(first.is_err(), "byte {position}: {first:?}");
        world.serves().await;
    }
    let world = World::new().await;
    let hello = client_hello(&world).await;
    for bytes in (0..hello.len()).step_by(29).chain([hello.len()]) {
        let mut stream = world.plain.connect(NAME).await.unwrap();
        stream.write_all(&hello[..bytes]).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(bytes == hello.len() || answer.is_empty(), "{bytes} bytes are answered");
    }
    world.serves().await;
}

/// What a caller says first.
async fn client_hello(world: &World) -> Vec<u8> {
    let mut listener = world.plain.listen("recorder").await.unwrap();
    let network = world.network();
    let recording = async {
        let mut stream = listener.accept().await.unwrap();
        let mut bytes = vec![0; 4096];
        let count = stream.read(&mut bytes).await.unwrap();
        bytes.truncate(count);
        bytes
    };
    let (connected, hello) = tokio::join!(network.connect("recorder"), recording);
    assert!(connected.is_err() && hello.len() > 100, "{} bytes", hello.len());
    hello
}

#[tokio::test(start_paused = true)]
async fn peers_that_do_not_finish_their_handshake_hold_nobody_up() {
    let world = World::new().await;
    let begin = world.env.now();
    let mut idle = Vec::new();
    for _ in 0..2 * MAX_HANDSHAKES {
        idle.push(world.plain.connect(NAME).await.unwrap());
        world.env.sleep(Duration::from_millis(1)).await;
    }
    world.serves().await;
    assert!(world.env.now() - begin < HANDSHAKE_LIMIT, "a node waited for strangers");
    // The oldest made room at once, and the last of them is given up when its time is over.
    let ends = async |stream: &mut Box<dyn crate::ByteStream>| {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        world.env.now() - begin
    };
    assert!(ends(&mut idle[MAX_HANDSHAKES - 1]).await < HANDSHAKE_LIMIT);
    let last = ends(&mut idle[2 * MAX_HANDSHAKES - 1]).await;
    assert!((HANDSHAKE_LIMIT..2 * HANDSHAKE_LIMIT).contains(&last), "{last:?}");
}

/// A token in somebody's notes must go on working: the authority that is made of it never changes.
#[test]
fn the_authority_of_a_secret_is_frozen() {
    let key = super::authority::key_pair(&blake3::derive_key(
        "Trilith 2026-11 key of a cluster's certificate authority",
        &[CLUSTER.0, SECRET].concat(),
    ));
    let public: String = key.unwrap().public_key_raw().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(public, "9350f9164dd714958eb6b0ec217db8a77f68690c9dcadf78033537d69d950f1a");
    let roots = authority().roots().unwrap();
    assert!(roots.roots[0].subject_public_key_info.ends_with(&hex(&public)), "the authority has this key");
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Figures: processor time of both ends for each call, over TCP on loopback.
#[tokio::test]
#[ignore = "figures, not a test; run it in release"]
async fn cost_of_encryption() {
    let env = Env::real_with_cores(1);
    for (bytes, calls) in [(100, 20_000), (4_096, 20_000), (1 << 20, 1_000)] {
        for round in 0..3 {
            let plain = microseconds_per_call(&env, |_| Arc::new(TcpNetwork), bytes, calls).await;
            let tls =
                |own| -> Arc<dyn Network> { Arc::new(TlsNetwork::new(&env, Arc::new(TcpNetwork), &authority(), own).unwrap()) };
            let tls = microseconds_per_call(&env, tls, bytes, calls).await;
            println!("{bytes:7} bytes there and back, round {round}: plain {plain:7.1} µs, TLS {tls:7.1} µs");
        }
    }
}

async fn microseconds_per_call(env: &Env, network: impl Fn(Identity) -> Arc<dyn Network>, bytes: usize, calls: usize) -> f64 {
    let listener = network(SERVER).listen("127.0.0.1:0").await.unwrap();
    let address = listener.address();
    let serving = env.spawn(serve(env.clone(), listener, Arc::<Echo>::default(), SERVER));
    let caller = RemoteCaller::new(env, network(CALLER), &address, CALLER);
    let payload = Bytes::from(vec![7; bytes]);
    caller.call(payload.clone(), env.now() + SOON).await.unwrap();
    let begin = processor_ticks();
    for _ in 0..calls {
        caller.call(payload.clone(), env.now() + SOON).await.unwrap();
    }
    serving.abort();
    (processor_ticks() - begin) as f64 * 10_000.0 / calls as f64
}

/// Hundredths of a second that this process has had, proc(5).
fn processor_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
