//! A client that sends what a test tells it to, over a pipe in memory.

use std::sync::Arc;

use nbd::{Errno, Export, NbdConfig, NbdServer, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::memory::Fixed;

const PIPE_BYTES: usize = 64 * 1024;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;

/// A server and the order to stop it.
pub struct Rig {
    pub server: Arc<NbdServer>,
    pub stop: watch::Sender<Stop>,
}

impl Rig {
    pub fn new(exports: Vec<Arc<dyn Export>>, config: NbdConfig) -> Rig {
        Rig { server: NbdServer::new(Arc::new(Fixed(exports)), config), stop: watch::Sender::new(Stop::Run) }
    }

    /// A client that has received the greeting and sent its flags.
    pub async fn connect(&self) -> Client {
        let mut client = self.connect_raw();
        let mut greeting = [0; 18];
        client.stream.read_exact(&mut greeting).await.expect("a greeting");
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3_u32.to_be_bytes()).await;
        client
    }

    pub fn connect_raw(&self) -> Client {
        let (stream, theirs) = tokio::io::duplex(PIPE_BYTES);
        let served = tokio::spawn(self.server.clone().serve_connection(theirs, self.stop.subscribe()));
        Client { stream, served, is_structured: false }
    }

    /// A client of the default export with structured replies and `base:allocation`.
    pub async fn enter(&self) -> Client {
        let mut client = self.connect().await;
        client.negotiate_structured().await;
        client.go("").await;
        client
    }

    /// A client of the default export with simple replies.
    pub async fn enter_simple(&self) -> Client {
        let mut client = self.connect().await;
        client.go("").await;
        client
    }
}

pub struct Client {
    pub stream: DuplexStream,
    pub served: JoinHandle<()>,
    is_structured: bool,
}

/// What the server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple { cookie: u64, error: u32 },
    Chunk { cookie: u64, is_last: bool, kind: u16, payload: Vec<u8> },
}

impl Reply {
    pub fn cookie(&self) -> u64 {
        match self {
            Reply::Simple { cookie, .. } | Reply::Chunk { cookie, .. } => *cookie,
        }
    }

    /// The error number of a reply that says how a request ended.
    pub fn error(&self) -> u32 {
        match self {
            Reply::Simple { error, .. } => *error,
            Reply::Chunk { kind, payload, .. } if kind >> 15 == 1 => {
                u32::from_be_bytes(payload[..4].try_into().expect("an error number"))
            }
            Reply::Chunk { .. } => 0,
        }
    }
}

pub fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes(), &cookie.to_be_bytes()].concat();
    [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}

pub fn write(flags: u16, cookie: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    [&request(flags, WRITE, cookie, offset, payload.len() as u32), payload].concat()
}

pub fn option(code: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

impl Client {
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// The final reply to an option, and what came before it.
    pub async fn option(&mut self, code: u32, data: &[u8]) -> (u32, Vec<Vec<u8>>) {
        self.send(&option(code, data)).await;
        let mut before = Vec::new();
        loop {
            let mut head = [0; 20];
            self.stream.read_exact(&mut head).await.expect("a reply");
            let number = |from: usize| u32::from_be_bytes(head[from..from + 4].try_into().expect("four bytes"));
            assert_eq!(number(8), code);
            let mut data = vec![0; number(16) as usize];
            self.stream.read_exact(&mut data).await.expect("a reply");
            before.push(data);
            if number(12) == 1 || number(12) >> 31 == 1 {
                return (number(12), before);
            }
        }
    }

    pub async fn negotiate_structured(&mut self) {
        assert_eq!(self.option(8, b"").await.0, 1);
        let data = [string(""), 1_u32.to_be_bytes().to_vec(), string("base:allocation")].concat();
        assert_eq!(self.option(10, &data).await.0, 1);
        self.is_structured = true;
    }

    /// Enters the export; its size and flags.
    pub async fn go(&mut self, name: &str) -> (u64, u16) {
        let (kind, infos) = self.option(7, &[&string(name)[..], &0_u16.to_be_bytes()].concat()).await;
        assert_eq!(kind, 1, "{infos:?}");
        let size = u64::from_be_bytes(infos[0][2..10].try_into().expect("a size"));
        (size, u16::from_be_bytes(infos[0][10..].try_into().expect("flags")))
    }

    /// The next reply; a simple one has `data` bytes of data if it succeeds.
    pub async fn reply_with(&mut self, data: usize) -> (Reply, Vec<u8>) {
        let magic = self.stream.read_u32().await.expect("a reply");
        if magic == 0x6744_6698 {
            let error = self.stream.read_u32().await.expect("an error number");
            let cookie = self.stream.read_u64().await.expect("a cookie");
            let mut content = vec![0; if error == 0 { data } else { 0 }];
            self.stream.read_exact(&mut content).await.expect("data");
            return (Reply::Simple { cookie, error }, content);
        }
        assert_eq!(magic, 0x668e_33ef);
        assert!(self.is_structured, "a chunk for a client that did not ask for it");
        let is_last = self.stream.read_u16().await.expect("flags") == 1;
        let kind = self.stream.read_u16().await.expect("a kind");
        let cookie = self.stream.read_u64().await.expect("a cookie");
        let mut payload = vec![0; self.stream.read_u32().await.expect("a length") as usize];
        self.stream.read_exact(&mut payload).await.expect("a payload");
        (Reply::Chunk { cookie, is_last, kind, payload }, Vec::new())
    }

    pub async fn reply(&mut self) -> Reply {
        self.reply_with(0).await.0
    }

    /// Sends a request and takes its one reply: how it ended.
    pub async fn ask(&mut self, bytes: &[u8]) -> u32 {
        self.send(bytes).await;
        self.reply().await.error()
    }

    pub async fn must_succeed(&mut self, bytes: &[u8]) {
        assert_eq!(self.ask(bytes).await, 0);
    }

    pub async fn must_fail(&mut self, bytes: &[u8], error: Errno) {
        assert_eq!(self.ask(bytes).await, error.number());
    }

    /// Reads by structured replies: the content, and how many chunks it took.
    pub async fn read(&mut self, flags: u16, offset: u64, length: u32) -> Result<(Vec<u8>, usize), u32> {
        self.send(&request(flags, READ, 77, offset, length)).await;
        let (mut content, mut covered, mut chunks) = (vec![0xee; length as usize], 0, 0);
        loop {
            let Reply::Chunk { cookie: 77, is_last, kind, payload } = self.reply().await else { panic!("a chunk") };
            if kind >> 15 == 1 {
                return Err(u32::from_be_bytes(payload[..4].try_into().expect("an error number")));
            }
            let at = u64::from_be_bytes(payload[..8].try_into().expect("an offset")) - offset;
            let part = match kind {
                1 => payload[8..].to_vec(),
                2 => vec![0; u32::from_be_bytes(payload[8..].try_into().expect("a length")) as usize],
                other => panic!("a chunk of kind {other}"),
            };
            content[at as usize..at as usize + part.len()].copy_from_slice(&part);
            covered += part.len();
            chunks += 1;
            if is_last {
                assert_eq!(covered, content.len(), "all of it is sent once");
                return Ok((content, chunks));
            }
        }
    }

    /// The server has ended the connection, and sends nothing before that.
    pub async fn must_be_ended(mut self) {
        let mut rest = Vec::new();
        // A pipe in memory whose other end is gone may also say so.
        if self.stream.read_to_end(&mut rest).await.is_ok() {
            assert_eq!(rest, b"");
        }
        self.served.await.expect("no panic");
    }

    pub async fn leave(mut self) {
        self.send(&request(0, DISCONNECT, 0, 0, 0)).await;
        self.must_be_ended().await;
    }
}
