//! A small object store in memory, which can misbehave.

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

/// How long a client's last connection may stay in the store's queue.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// One byte of every GET's body at this offset is flipped.
    FlipByte(usize),
    /// Every n-th request is answered 503 SlowDown.
    Refuse(u64),
    /// Every response closes its connection.
    Close,
    /// The first bytes of a request are answered with these, and the connection is closed.
    Raw(&'static str),
    /// Requests are never answered.
    Silent,
    /// The n-th request stops the whole server for this long.
    StallOnce(u64, Duration),
    /// Listings come in reverse.
    Reverse,
}

/// What the store has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Objects by path, with the bucket.
    pub objects: BTreeMap<String, Bytes>,
    /// Requests.
    pub requests: u64,
    /// Deletes of keys that were not there.
    pub missing_deletes: u64,
    /// PUTs of keys that were there.
    pub overwrites: u64,
    /// Listings answered, and tokens they continued from.
    pub tokens: Vec<Option<String>>,
    /// Distinct Authorization headers and query strings.
    pub proofs: HashSet<String>,
    /// Connections accepted.
    pub connections: u64,
}

/// A running store.
pub struct Store {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    pub fn start(fault: Fault) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (stop, stopped) = watch::channel(false);
        let shared = seen.clone();
        let thread = std::thread::spawn(move || serve(listener, fault, shared, stopped));
        Store { address, seen, stop, thread: Some(thread) }
    }

    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Connections accepted, once there are `expected`: a client may be done before the store takes its last one from the queue.
    pub fn connections(&self, expected: u64) -> u64 {
        for _ in 0..PATIENCE.as_millis() {
            let connections = self.seen().connections;
            if connections >= expected {
                return connections;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.seen().connections
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            // A second panic would end the process before the first one is reported.
            assert!(std::thread::panicking() || ended.is_ok(), "the store panicked");
        }
    }
}

fn serve(listener: std::net::TcpListener, fault: Fault, seen: Arc<Mutex<Seen>>, mut stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.changed() => return,
            };
            let (mut stream, _) = accepted.unwrap();
            stream.set_nodelay(true).unwrap();
            seen.lock().unwrap().connections += 1;
            let seen = seen.clone();
            tokio::task::spawn_local(async move {
                if let Fault::Raw(answer) = fault {
                    stream.readable().await.unwrap();
                    // The client may be gone before the answer is.
                    stream.write_all(answer.as_bytes()).await.ok();
                    stream.shutdown().await.ok();
                    return;
                }
                let service = service_fn(move |request| answer(request, fault, seen.clone()));
                http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
            });
        }
    });
}

async fn answer(request: Request<Incoming>, fault: Fault, seen: Arc<Mutex<Seen>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.requests += 1;
        if let Some(value) = head.headers.get("authorization") {
            seen.proofs.insert(value.to_str().unwrap().to_owned());
        } else if let Some(query) = head.uri.query().filter(|query| query.contains("X-Amz-Signature")) {
            seen.proofs.insert(query.to_owned());
        }
        seen.requests
    };
    match fault {
        Fault::Silent => std::future::pending().await,
        Fault::StallOnce(at, time) if number == at => std::thread::sleep(time),
        Fault::Refuse(every) if number % every == 0 => {
            return Ok(reply(StatusCode::SERVICE_UNAVAILABLE, "<Error><Code>SlowDown</Code></Error>"));
        }
        _ => {}
    }
    let mut response = respond(&head.method, &head.uri, body, fault, &mut seen.lock().unwrap());
    if fault == Fault::Close {
        response.headers_mut().insert("connection", "close".parse().unwrap());
    }
    Ok(response)
}

fn respond(method: &Method, uri: &hyper::Uri, body: Bytes, fault: Fault, seen: &mut Seen) -> Response<Full<Bytes>> {
    let path = uri.path().to_owned();
    let query = uri.query().unwrap_or_default();
    if method == Method::GET && query.contains("list-type=2") {
        return list(query, fault, seen);
    }
    match *method {
        Method::PUT => {
            if seen.objects.insert(path, body).is_some() {
                seen.overwrites += 1;
            }
            reply(StatusCode::OK, "")
        }
        Method::DELETE => {
            if seen.objects.remove(&path).is_none() {
                seen.missing_deletes += 1;
            }
            reply(StatusCode::NO_CONTENT, "")
        }
        _ => match seen.objects.get(&path) {
            None => reply(StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>"),
            Some(object) => {
                let mut object = object.to_vec();
                if let Fault::FlipByte(offset) = fault
                    && let Some(byte) = object.get_mut(offset)
                {
                    *byte ^= 0x10;
                }
                reply(StatusCode::OK, object)
            }
        },
    }
}

fn list(query: &str, fault: Fault, seen: &mut Seen) -> Response<Full<Bytes>> {
    let parameter = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(|value| value.replace("%2F", "/"))
    };
    let token = parameter("continuation-token");
    let most: usize = parameter("max-keys").unwrap().parse().unwrap();
    let prefix = format!("/bench/{}", parameter("prefix").unwrap());
    let all = seen.objects.keys().filter(|path| path.starts_with(&prefix)).map(|path| &path["/bench/".len()..]);
    let rest: Vec<&str> = all.filter(|key| token.as_deref().is_none_or(|token| *key > token)).collect();
    let mut page: Vec<&str> = rest.iter().take(most).copied().collect();
    let mut xml = format!("<ListBucketResult><IsTruncated>{}</IsTruncated>", rest.len() > page.len());
    if rest.len() > page.len() {
        xml += &format!("<NextContinuationToken>{}</NextContinuationToken>", page.last().unwrap());
    }
    if fault == Fault::Reverse {
        page.reverse();
    }
    for key in page {
        xml += &format!("<Contents><Key>{key}</Key></Contents>");
    }
    seen.tokens.push(token);
    reply(StatusCode::OK, xml + "</ListBucketResult>")
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let body = body.into();
    let mut response = Response::new(Full::default());
    if status != StatusCode::NO_CONTENT {
        // hyper leaves the length out of an answer to HEAD when it is 0; S3 never does.
        response.headers_mut().insert("content-length", body.len().into());
    }
    *response.body_mut() = Full::new(body);
    *response.status_mut() = status;
    response
}
