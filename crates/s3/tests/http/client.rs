//! A client that sends exactly the bytes it is given.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case, sorted.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).expect("connects");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("no delay");
        Client { reader: BufReader::new(socket) }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("sends");
    }

    /// Sends, and does not mind if the server has ended the connection.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// The same connection, to send from another thread.
    pub fn sender(&self) -> Client {
        Client { reader: BufReader::new(self.reader.get_ref().try_clone().expect("a second handle")) }
    }

    /// Reads so many bytes, or fewer at the connection's end; how many.
    pub fn take(&mut self, bytes: u64) -> usize {
        let mut taken = Vec::new();
        // A connection that is cut may end in an error; what came before it counts.
        self.reader.by_ref().take(bytes).read_to_end(&mut taken).unwrap_or_default();
        taken.len()
    }

    pub fn end_sending(&mut self) {
        self.reader.get_mut().shutdown(Shutdown::Write).expect("shuts");
    }

    /// The next answer to anything but HEAD.
    pub fn answer(&mut self) -> Answer {
        self.answer_to("GET")
    }

    /// The next answer; to HEAD there is no body.
    pub fn answer_to(&mut self, method: &str) -> Answer {
        self.try_answer(method).expect("an answer")
    }

    /// The next answer; none if the connection ended before it.
    pub fn try_answer(&mut self, method: &str) -> Option<Answer> {
        let line = self.line()?;
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some("HTTP/1.1"), "{line}");
        let status: u16 = words.next().and_then(|status| status.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        loop {
            let line = self.line().expect("headers end");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').expect("a header");
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        headers.sort();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let has_body = method != "HEAD" && status != 204 && status != 304 && status >= 200;
        if has_body {
            answer.body = self.body(&answer);
        }
        Some(answer)
    }

    fn body(&mut self, answer: &Answer) -> Vec<u8> {
        let mut body = Vec::new();
        if let Some(length) = answer.header("content-length") {
            body.resize(length.parse().expect("a length"), 0);
            self.reader.read_exact(&mut body).expect("the whole body");
        } else if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let length = usize::from_str_radix(&self.line().expect("a chunk"), 16).expect("a length");
                let start = body.len();
                body.resize(start + length, 0);
                self.reader.read_exact(&mut body[start..]).expect("the whole chunk");
                self.line().expect("the end of a chunk");
                if length == 0 {
                    break;
                }
            }
        } else {
            self.reader.read_to_end(&mut body).expect("the rest");
        }
        body
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// All bytes to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // A connection that is cut may end in an error; what came before it counts.
        self.reader.read_to_end(&mut all).unwrap_or_default();
        all
    }

    /// Whether the server has ended the connection, without another byte.
    pub fn is_at_end(&mut self) -> bool {
        let mut byte = [0];
        match self.reader.read(&mut byte) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of the first such element.
    pub fn element(&self, name: &str) -> Option<String> {
        let text = self.text();
        let from = text.find(&format!("<{name}>"))? + name.len() + 2;
        let bytes = text[from..].find(&format!("</{name}>"))?;
        Some(text[from..from + bytes].to_owned())
    }

    /// The texts of all such elements.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (start, end) = (format!("<{name}>"), format!("</{name}>"));
        text.split(&start).skip(1).map(|piece| piece.split(&end).next().unwrap_or_default().to_owned()).collect()
    }
}

/// Sends one request on a connection of its own.
pub fn request(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut client = Client::connect(address);
    client.send(format!("{head}\r\n\r\n").as_bytes());
    client.try_send(body);
    client.answer_to(head.split(' ').next().unwrap_or_default())
}
