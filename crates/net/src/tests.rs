//! Callers and servers against each other: over TCP on loopback, and over the simulated network with its clock stopped.

use crate::hello::End;
use crate::server::RIDE_TIME;
use crate::{
    BoxFuture, CallError, Caller, Identity, Incoming, LinkWeather, LocalCaller, MAX_CALLS_IN_FLIGHT, MAX_PAYLOAD_BYTES,
    MAX_REQUESTS_PER_CONNECTION, Network, Outgoing, Refusal, RemoteCaller, Request, Router, Service, ServiceTag,
    SimulatedNetwork, TcpNetwork, serve,
};
use bytes::Bytes;
use env::{Env, Instant};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use types::{ClusterId, NodeIdentity};

const CLUSTER: Identity = Identity { cluster: ClusterId([7; 16]), node: NodeIdentity([1; 16]) };
const NAME: &str = "target-1";

fn after(env: &Env, duration: Duration) -> Instant {
    env.now() + duration
}

const SOON: Duration = Duration::from_secs(20);

/// Answers "echo:" and the request; "wait MS" first waits, "refuse" is refused, the answer to "later" may wait. Counts what it does.
#[derive(Default)]
struct Echo {
    begun: Mutex<Vec<Bytes>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    env: Option<Env>,
}

impl Echo {
    fn new(env: &Env) -> Arc<Self> {
        Arc::new(Echo { env: Some(env.clone()), ..Echo::default() })
    }

    fn begun(&self) -> usize {
        self.begun.lock().len()
    }
}

impl Service for Echo {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            self.begun.lock().push(request.payload.clone());
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_running.fetch_max(running, Ordering::SeqCst);
            let text = String::from_utf8_lossy(&request.payload).into_owned();
            if let Some(wait) = text.strip_prefix("wait ") {
                self.env.as_ref().unwrap().sleep(Duration::from_millis(wait.parse().unwrap())).await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            match &text[..] {
                "refuse" => Err(Refusal::new("not today")),
                "begin" => Err(Refusal::early("tomorrow")),
                _ => Ok(Bytes::from([b"echo:", &request.payload[..]].concat())),
            }
        })
    }

    fn answer_may_wait(&self, request: &Request) -> bool {
        &request.payload[..] == b"later"
    }
}

/// Starts a server; it ends when the handle is aborted.
async fn start(env: &Env, network: &dyn Network, address: &str, service: Arc<dyn Service>) -> (JoinHandle<()>, String) {
    let listener = network.listen(address).await.unwrap();
    let address = listener.address();
    (env.spawn(serve(env.clone(), listener, service, CLUSTER)), address)
}

/// A simulated network with one server and a caller of it.
struct Simulated {
    env: Env,
    network: SimulatedNetwork,
    service: Arc<Echo>,
    caller: RemoteCaller,
}

impl Simulated {
    async fn new() -> Self {
        let env = Env::simulated(1);
        let network = SimulatedNetwork::new(&env);
        let service = Echo::new(&env);
        start(&env, &network, NAME, service.clone()).await;
        let caller = RemoteCaller::new(&env, Arc::new(network.clone()), NAME, CLUSTER);
        Simulated { env, network, service, caller }
    }

    async fn call(&self, text: &str, limit: Duration) -> Result<Bytes, CallError> {
        self.caller.call(Bytes::copy_from_slice(text.as_bytes()), after(&self.env, limit)).await
    }
}

/// What every caller does, whichever way its calls go.
async fn behaves(env: &Env, caller: &dyn Caller) {
    let call = |text: &'static str, limit| caller.call(Bytes::from(text), after(env, limit));
    assert_eq!(call("hello", SOON).await.unwrap(), "echo:hello");
    let large = Bytes::from(vec![b'x'; MAX_PAYLOAD_BYTES - 5]);
    assert_eq!(caller.call(large.clone(), after(env, SOON)).await.unwrap().len(), MAX_PAYLOAD_BYTES);
    let refused = call("refuse", SOON).await.unwrap_err();
    assert!(matches!(&refused, CallError::Refused { refusal, .. } if *refusal == Refusal::new("not today")), "{refused:?}");
    assert!(refused.is_definite());
    let early = call("begin", SOON).await.unwrap_err();
    assert!(matches!(&early, CallError::Refused { refusal, .. } if *refusal == Refusal::early("tomorrow")), "{early:?}");
    let too_long = caller.call(Bytes::from(vec![0; MAX_PAYLOAD_BYTES + 1]), after(env, SOON)).await.unwrap_err();
    assert_eq!(too_long, CallError::TooLong { bytes: MAX_PAYLOAD_BYTES + 1, most: MAX_PAYLOAD_BYTES });
    let late = call("wait 60000", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(late, CallError::Unanswered { .. }) && !late.is_definite(), "{late}");
    let (slow, quick) = tokio::join!(call("wait 30", SOON), call("quick", SOON));
    assert_eq!((slow.unwrap(), quick.unwrap()), (Bytes::from("echo:wait 30"), Bytes::from("echo:quick")));
}

#[tokio::test]
async fn calls_over_tcp() {
    let env = Env::real();
    let (server, address) = start(&env, &TcpNetwork, "127.0.0.1:0", Echo::new(&env)).await;
    behaves(&env, &RemoteCaller::new(&env, Arc::new(TcpNetwork), &address, CLUSTER)).await;
    server.abort();
}

/// Silence counts from the first call that waits, not from the last answer of a busier time.
#[tokio::test(start_paused = true)]
async fn a_call_after_a_long_rest_has_its_time() {
    let env = Env::simulated(77);
    let network = SimulatedNetwork::new(&env);
    let (_server, address) = start(&env, &network, NAME, Echo::new(&env)).await;
    let caller = RemoteCaller::new(&env, Arc::new(network.clone()), &address, CLUSTER);
    for rest_ms in [4_400, 4_900, 9_900] {
        caller.call(Bytes::from_static(b"hello"), after(&env, SOON)).await.unwrap();
        env.sleep(Duration::from_millis(rest_ms)).await;
        let answer = caller.call(Bytes::from_static(b"wait 700"), after(&env, SOON)).await;
        assert_eq!(answer.unwrap(), Bytes::from_static(b"echo:wait 700"));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_simulated_network() {
    let simulated = Simulated::new().await;
    behaves(&simulated.env, &simulated.caller).await;
}

#[tokio::test(start_paused = true)]
async fn calls_within_the_process() {
    let env = Env::simulated(1);
    behaves(&env, &LocalCaller::new(&env, Echo::new(&env))).await;
}

#[tokio::test]
async fn over_tcp_a_server_that_comes_back_is_found_again() {
    let env = Env::real();
    let (server, address) = start(&env, &TcpNetwork, "127.0.0.1:0", Echo::new(&env)).await;
    let caller = RemoteCaller::new(&env, Arc::new(TcpNetwork), &address, CLUSTER);
    assert_eq!(caller.call(Bytes::from("one"), after(&env, SOON)).await.unwrap(), "echo:one");
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    let gone = caller.call(Bytes::from("two"), after(&env, SOON)).await;
    assert!(gone.is_err(), "{gone:?}");
    let (server, _) = start(&env, &TcpNetwork, &address, Echo::new(&env)).await;
    // The attempts in between may still fail; each is an error of its own, and none hangs.
    let mut answer = Err(());
    for _ in 0..100 {
        answer = caller.call(Bytes::from("three"), after(&env, SOON)).await.map_err(|_| ());
        if answer.is_ok() {
            break;
        }
    }
    assert_eq!(answer.unwrap(), "echo:three");
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_cut_connection_leaves_its_calls_unanswered_and_the_next_one_connects_anew() {
    let simulated = Simulated::new().await;
    let cutting = async {
        simulated.env.sleep(Duration::from_millis(10)).await;
        simulated.network.interrupt(NAME);
    };
    let (cut, ()) = tokio::join!(simulated.call("wait 1000", SOON), cutting);
    assert!(matches!(cut, Err(CallError::Unanswered { .. })), "{cut:?}");
    assert_eq!(simulated.call("again", SOON).await.unwrap(), "echo:again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_can_not_be_reached_was_not_sent_anything() {
    let simulated = Simulated::new().await;
    simulated.network.cut(NAME);
    let refused = simulated.call("lost", SOON).await.unwrap_err();
    assert!(matches!(refused, CallError::NotSent { .. }) && refused.is_definite(), "{refused}");
    simulated.network.mend(NAME);
    assert_eq!(simulated.call("found", SOON).await.unwrap(), "echo:found");
    assert_eq!(simulated.service.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_even_while_nobody_can_be_reached() {
    let simulated = Simulated::new().await;
    simulated.network.delay(NAME, Duration::from_secs(100));
    let begin = simulated.env.now();
    let ended = simulated.call("slow", Duration::from_millis(700)).await.unwrap_err();
    assert_eq!(simulated.env.now() - begin, Duration::from_millis(700));
    assert!(matches!(ended, CallError::NotSent { .. }), "the hello is still on its way: {ended}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_arrives_after_its_deadline_is_not_begun() {
    let simulated = Simulated::new().await;
    simulated.call("warm", SOON).await.unwrap();
    simulated.network.delay(NAME, Duration::from_millis(300));
    // The budget does not count the way, so a request with none left is what arrives too late.
    let late = simulated.call("late", Duration::from_micros(500)).await.unwrap_err();
    assert!(matches!(late, CallError::Unanswered { .. }), "{late}");
    simulated.env.sleep(Duration::from_secs(2)).await;
    assert_eq!(simulated.service.begun(), 1, "only the first call");
}

#[tokio::test(start_paused = true)]
async fn a_corrupt_byte_ends_the_connection_and_is_never_answered() {
    // Somewhere in the hellos (232 bytes), the request (46), the answer (51).
    for position in [0, 5, 30, 40, 60, 90, 115, 140, 170, 190, 215, 231, 235, 265, 277, 280, 310, 328] {
        let simulated = Simulated::new().await;
        simulated.network.corrupt_after(NAME, position);
        let first = simulated.call("precious bytes", SOON).await;
        assert!(first.is_err(), "byte {position}: {first:?}");
        assert_eq!(simulated.call("precious bytes", SOON).await.unwrap(), "echo:precious bytes", "byte {position}");
        let begun = simulated.service.begun.lock().clone();
        assert!(begun.iter().all(|payload| payload == "precious bytes"), "byte {position}: {begun:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_cluster_is_told_apart() {
    let simulated = Simulated::new().await;
    let stranger = Identity { cluster: ClusterId([8; 16]), node: NodeIdentity([1; 16]) };
    let caller = RemoteCaller::new(&simulated.env, Arc::new(simulated.network.clone()), NAME, stranger);
    let error = caller.call(Bytes::from("hello"), after(&simulated.env, SOON)).await.unwrap_err();
    assert!(error.is_definite() && error.to_string().contains("is not of this node's cluster"), "{error}");
    assert_eq!(simulated.service.begun(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_node_that_is_meant_is_called() {
    let simulated = Simulated::new().await;
    let call = async |node| {
        let network = Arc::new(simulated.network.clone());
        let caller = RemoteCaller::of_node(&simulated.env, network, NAME, CLUSTER, node);
        caller.call(Bytes::from("you"), after(&simulated.env, SOON)).await
    };
    let error = call(NodeIdentity([2; 16])).await.unwrap_err();
    assert!(error.is_definite() && error.to_string().contains("node 0101"), "{error}");
    assert_eq!(simulated.service.begun(), 0);
    assert_eq!(call(CLUSTER.node).await.unwrap(), "echo:you");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_answers_holds_a_bounded_number_of_calls() {
    let env = Env::simulated(1);
    let network = SimulatedNetwork::new(&env);
    // It says hello and then reads nothing.
    let mut listener = network.listen(NAME).await.unwrap();
    let deaf = env.clone();
    env.spawn(async move {
        let stream = listener.accept().await.unwrap();
        let greeted = crate::hello::greet(&deaf, stream, CLUSTER, End::Acceptor(None)).await;
        deaf.sleep(Duration::from_secs(3600)).await;
        drop(greeted);
    });
    let caller = Arc::new(RemoteCaller::new(&env, Arc::new(network), NAME, CLUSTER));
    let deadline = after(&env, Duration::from_secs(2));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..MAX_CALLS_IN_FLIGHT + 20 {
        let caller = caller.clone();
        calls.spawn(async move { caller.call(Bytes::from(vec![0; 4096]), deadline).await });
    }
    let errors = calls.join_all().await;
    let definite = errors.iter().filter(|error| error.as_ref().unwrap_err().is_definite()).count();
    assert!(definite >= 20, "the calls beyond the limit, and those that did not fit the pipe, were never sent: {definite}");
    assert!(definite < errors.len(), "some were sent");
    // All room is free again: calls fail by their own deadline and not for want of permits.
    let last = caller.call(Bytes::from("x"), after(&env, Duration::from_millis(10))).await.unwrap_err();
    assert!(!last.to_string().contains("calls wait"), "{last}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up_but_a_busy_one_is_not() {
    let simulated = Simulated::new().await;
    assert_eq!(simulated.call("wait 30000", Duration::from_secs(60)).await.unwrap(), "echo:wait 30000");
    let begin = simulated.env.now();
    let silencing = async {
        simulated.env.sleep(Duration::from_millis(10)).await;
        simulated.network.delay(NAME, Duration::from_secs(3600));
    };
    let (silent, ()) = tokio::join!(simulated.call("wait 30000", Duration::from_secs(60)), silencing);
    assert!(matches!(&silent, Err(CallError::Unanswered { reason, .. }) if reason.contains("silent")), "{silent:?}");
    assert!(simulated.env.now() - begin < Duration::from_secs(15));
}

/// Calls that end before the peer counts as silent keep no dead connection: nothing would be heard of it until TCP tries again, long after the
/// link is back.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_given_up_though_nobody_waits_for_long() {
    let simulated = Simulated::new().await;
    simulated.call("hello", SOON).await.unwrap();
    simulated.network.delay(NAME, Duration::from_secs(3600));
    for _ in 0..8 {
        simulated.call("hello", Duration::from_millis(500)).await.unwrap_err();
        simulated.env.sleep(Duration::from_millis(100)).await;
    }
    simulated.network.delay(NAME, Duration::ZERO);
    simulated.env.sleep(Duration::from_secs(2)).await;
    assert_eq!(simulated.call("hello", SOON).await.unwrap(), "echo:hello");
}

/// An answer that may wait goes with the next one that may not, at the latest after a moment, and at once if there will be none.
#[tokio::test(start_paused = true)]
async fn an_answer_that_may_wait_travels_with_another_one() {
    let simulated = Simulated::new().await;
    simulated.network.set_weather(LinkWeather { is_cut: false, longest_delay: Duration::ZERO, breaks_per_million: 0 });
    let env = &simulated.env;
    let timed = async |text: &'static str| {
        let begun = env.now();
        simulated.call(text, SOON).await.unwrap();
        env.now() - begun
    };
    timed("connect").await;
    assert_eq!(timed("later").await, Duration::ZERO);
    let (waits, other) = tokio::join!(timed("later"), timed("wait 50"));
    assert_eq!((waits, other), (RIDE_TIME, Duration::from_millis(50)));
    let (waits, other) = tokio::join!(timed("later"), timed("now"));
    assert_eq!((waits, other), (Duration::ZERO, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_server_carries_out_a_bounded_number_of_requests_of_one_connection() {
    let env = Env::simulated(1);
    let network = SimulatedNetwork::new(&env);
    let service = Echo::new(&env);
    start(&env, &network, NAME, service.clone()).await;
    let stream = network.connect(NAME).await.unwrap();
    let greeted = crate::hello::greet(&env, stream, CLUSTER, End::Caller(None)).await;
    let crate::hello::Greeted { mut reader, mut writer, .. } = greeted.unwrap_or_else(|error| panic!("{error}"));
    let requests = MAX_REQUESTS_PER_CONNECTION as u64 + 50;
    let sending = env.spawn(async move {
        for id in 0..requests {
            writer.write(crate::FrameKind::Request, id, 60_000, b"wait 500").await.unwrap_or_else(|error| panic!("{error}"));
        }
        writer
    });
    let mut answered = 0;
    while answered < requests {
        let (header, _) = reader.next().await.unwrap_or_else(|error| panic!("{error}"));
        answered += u64::from(header.kind == crate::FrameKind::Response);
    }
    assert_eq!(service.most_running.load(Ordering::SeqCst), MAX_REQUESTS_PER_CONNECTION);
    drop(sending.await.unwrap());
}

/// A service that waits for a disk that hangs, say, keeps nobody else's requests from being carried out.
#[tokio::test(start_paused = true)]
async fn requests_that_nobody_waits_for_any_more_make_room() {
    let simulated = Simulated::new().await;
    for _ in 0..MAX_REQUESTS_PER_CONNECTION + 10 {
        let error = simulated.call("wait 3600000", Duration::from_millis(200)).await.unwrap_err();
        assert!(!error.is_definite(), "it may yet be carried out: {error}");
    }
    assert_eq!(simulated.service.begun(), MAX_REQUESTS_PER_CONNECTION + 10);
    assert_eq!(simulated.call("hello", SOON).await.unwrap(), "echo:hello");
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_connection_begin_in_order() {
    let simulated = Simulated::new().await;
    let calls: Vec<_> = (0..100).map(|number| format!("{number}")).collect();
    let answers = futures_util::future::join_all(calls.iter().map(|text| simulated.call(text, SOON))).await;
    assert!(answers.iter().all(Result::is_ok));
    let begun: Vec<String> =
        simulated.service.begun.lock().iter().map(|payload| String::from_utf8_lossy(payload).into()).collect();
    assert_eq!(begun, calls);
}

#[tokio::test(start_paused = true)]
async fn torn_and_foreign_bytes_end_only_their_own_connection() {
    let simulated = Simulated::new().await;
    let hello = b"TRN1 this is not the protocol, or not all of it ...........".to_vec();
    for length in [0, 1, 3, 4, 31, 32, 40, hello.len()] {
        let mut stream = simulated.network.connect(NAME).await.unwrap();
        stream.write_all(&hello[..length]).await.unwrap();
        stream.shutdown().await.unwrap();
        // A hello without a proof may come; then the connection ends.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 68, "{} bytes for a stranger", rest.len());
    }
    assert_eq!(simulated.call("well", SOON).await.unwrap(), "echo:well");
}

/// Takes the numbered items of a stream.
#[derive(Default)]
struct Taking {
    incoming: Mutex<Incoming>,
    taken: Mutex<Vec<u64>>,
}

impl Service for Taking {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        let (number, item) = request.payload.split_at(8);
        let number = u64::from_le_bytes(number.try_into().unwrap());
        let mut incoming = self.incoming.lock();
        if incoming.arrived(crate::StreamNumber(number)) == crate::Arrival::Next {
            self.taken.lock().push(u64::from_le_bytes(item.try_into().unwrap()));
        }
        let through = incoming.taken().0.to_le_bytes().to_vec();
        Box::pin(async move { Ok(Bytes::from(through)) })
    }
}

/// A stream over calls that are cut again and again: everything arrives once and in order, for every seed.
#[tokio::test(start_paused = true)]
async fn numbered_items_survive_reconnects() {
    let mut cut_calls = 0;
    for seed in 0..20 {
        let env = Env::simulated(seed);
        let network = SimulatedNetwork::new(&env);
        let service = Arc::new(Taking::default());
        start(&env, &network, NAME, service.clone()).await;
        network.delay(NAME, Duration::from_millis(1));
        let caller = RemoteCaller::new(&env, Arc::new(network.clone()), NAME, CLUSTER);
        let breaking = env.clone();
        let breaker = env.spawn(async move {
            loop {
                breaking.sleep(Duration::from_micros(500 + breaking.random_below(20_000))).await;
                network.interrupt(NAME);
            }
        });
        let mut outgoing = Outgoing::new(8);
        let mut next = 0u64;
        while next < 200 || outgoing.unacknowledged().next().is_some() {
            while next < 200 && outgoing.push(next).is_ok() {
                next += 1;
            }
            let batch: Vec<_> = outgoing.unacknowledged().map(|(number, item)| (number, *item)).collect();
            for (number, item) in batch {
                let payload = Bytes::from([number.0.to_le_bytes(), item.to_le_bytes()].concat());
                let Ok(answer) = caller.call(payload, after(&env, SOON)).await else {
                    cut_calls += 1;
                    break;
                };
                let through = u64::from_le_bytes(answer.as_ref().try_into().unwrap());
                outgoing.acknowledge(crate::StreamNumber(through)).unwrap();
            }
        }
        breaker.abort();
        assert_eq!(*service.taken.lock(), (0..200).collect::<Vec<_>>(), "seed {seed}");
    }
    assert!(cut_calls > 20, "only {cut_calls} calls were cut");
}

#[tokio::test(start_paused = true)]
async fn each_request_reaches_the_service_that_its_tag_names() {
    let env = Env::simulated(1);
    let (one, other) = (Echo::new(&env), Echo::new(&env));
    let router = Router::new().with(ServiceTag::CONSENSUS, one.clone()).with(ServiceTag::MANAGER, other.clone());
    let caller = LocalCaller::new(&env, Arc::new(router));
    let call = async |payload: Bytes| caller.call(payload, after(&env, SOON)).await;
    assert_eq!(call(ServiceTag::CONSENSUS.mark(b"a")).await.unwrap(), "echo:a");
    assert_eq!(call(ServiceTag::MANAGER.mark(b"b")).await.unwrap(), "echo:b");
    assert_eq!((one.begun.lock().clone(), other.begun.lock().clone()), (vec![Bytes::from("a")], vec![Bytes::from("b")]));
    let refused = call(ServiceTag(9).mark(b"c")).await.unwrap_err();
    assert_eq!(refused.to_string(), "this process refused: no service 9 at this address");
    assert_eq!(call(Bytes::new()).await.unwrap_err().to_string(), "this process refused: a request for no service");
    let refused = call(ServiceTag::MANAGER.mark(b"refuse")).await.unwrap_err();
    assert_eq!(refused.to_string(), "this process refused: not today");
}
