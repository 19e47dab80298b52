//! The HTTP front end, over its socket: whatever bytes arrive, nothing panics, the connection ends once the client has sent
//! its end, every byte that comes back belongs to an HTTP answer, and the server goes on serving.
#![no_main]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::memory::MemoryEngine;
use env::Env;
use libfuzzer_sys::fuzz_target;
use manager::Manager;
use object::{BucketOptions, Engines, ObjectService, Principal};
use s3::{App, S3Config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A bucket in which everybody may do everything, so that requests without a signature get somewhere.
const PUBLIC: &str = "public";
/// The longest that an answer may take; nothing here waits for anything but the fuzzer's bytes.
const ANSWER_LIMIT: Duration = Duration::from_secs(8);
/// Runs until the server is made anew, so that what the fuzzer stored does not fill the memory.
const RUNS_PER_SERVER: u32 = 4096;
/// Every so many runs a plain request must still be answered.
const RUNS_PER_CHECK: u32 = 32;

struct Server {
    runtime: Runtime,
    address: SocketAddr,
    runs: u32,
    /// Its end would stop the server.
    _shutdown: watch::Sender<bool>,
}

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

fuzz_target!(|input: &[u8]| {
    SERVER.with_borrow_mut(|slot| {
        let server = slot.take_if(|server| server.runs >= RUNS_PER_SERVER);
        drop(server);
        let server = slot.get_or_insert_with(start);
        server.runs += 1;
        let answer = server.runtime.block_on(exchange(server.address, input));
        let is_http = answer.is_empty() || answer.starts_with(b"HTTP/1.");
        assert!(is_http, "an answer that is not HTTP: {}", String::from_utf8_lossy(&answer));
        if server.runs % RUNS_PER_CHECK == 0 {
            let request = format!("GET /{PUBLIC}?location HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let answer = server.runtime.block_on(exchange(server.address, request.as_bytes()));
            assert!(answer.starts_with(b"HTTP/1.1 200 "), "the server no longer answers: {}", String::from_utf8_lossy(&answer));
        }
    });
});

/// Sends all of it, then the end, and reads what comes back up to the server's end.
async fn exchange(address: SocketAddr, input: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).await.expect("the server accepts");
    let mut answer = Vec::new();
    let talk = async {
        let (mut reader, mut writer) = socket.split();
        let send = async {
            // Two writes, so that a request may be cut where it arrives. The server may have refused it by then.
            let (first, second) = input.split_at(input.len() / 2);
            let sent = writer.write_all(first).await.is_ok() && writer.write_all(second).await.is_ok();
            sent && writer.shutdown().await.is_ok()
        };
        let receive = reader.read_to_end(&mut answer);
        tokio::join!(send, receive)
    };
    let ended = tokio::time::timeout(ANSWER_LIMIT, talk).await;
    assert!(ended.is_ok(), "the connection does not end");
    answer
}

fn start() -> Server {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (address, shutdown) = runtime.block_on(async {
        let env = Env::real();
        let manager = Arc::new(Manager::open_in_memory(&env).await.expect("a manager"));
        manager.set_root_credential("trilith", "trilith-secret").await.expect("a root");
        let engines = Engines::log(Arc::new(MemoryEngine::new()));
        let service = Arc::new(ObjectService::new(manager.clone(), engines, env.clone()));
        make_public_bucket(&service).await;
        let app = App::new(S3Config::new(SocketAddr::from(([127, 0, 0, 1], 0))), service, manager, &env);
        let (mut listeners, address) = s3::listen(app.config().address, 1).expect("a free port");
        let (shutdown, stopped) = watch::channel(false);
        tokio::spawn(s3::serve_core(listeners.remove(0), app, stopped));
        (address, shutdown)
    });
    Server { runtime, address, runs: 0, _shutdown: shutdown }
}

async fn make_public_bucket(service: &ObjectService) {
    let root = Principal::User { name: Arc::from("root"), is_root: true };
    service.create_bucket(&root, PUBLIC, BucketOptions::default()).await.expect("a bucket");
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[
            {{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:PutObject","s3:DeleteObject"],"Resource":"arn:aws:s3:::{PUBLIC}/*"}},
            {{"Effect":"Allow","Principal":"*","Action":["s3:ListBucket","s3:GetBucketLocation"],"Resource":"arn:aws:s3:::{PUBLIC}"}}]}}"#
    );
    service.put_bucket_policy(&root, PUBLIC, policy.into()).await.expect("a policy");
}
