//! Bare HTTP on one connection: what tests send to see exactly what comes back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// One keep-alive connection.
pub struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

/// What came back.
pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Connection {
    pub fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Connection { stream: BufReader::new(stream), host: address.to_owned() })
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
        self.send_head(method, path, headers, body.len())?;
        self.send(body)?;
        self.answer(method == "HEAD")
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.ask("GET", path, &[], b"")
    }

    pub fn send_head(&mut self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n", self.host);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes())
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads one answer; 100 Continue is one.
    pub fn answer(&mut self, is_head: bool) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(|| io::Error::other(format!("status line {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| io::Error::other(format!("header {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if !is_head && status >= 200 && status != 204 && status != 304 {
            self.body(&mut answer)?;
        }
        Ok(answer)
    }

    fn body(&mut self, answer: &mut Answer) -> io::Result<()> {
        if answer.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            loop {
                let size = usize::from_str_radix(self.line()?.trim(), 16).map_err(io::Error::other)?;
                let start = answer.body.len();
                answer.body.resize(start + size, 0);
                self.stream.read_exact(&mut answer.body[start..])?;
                self.line()?;
                if size == 0 {
                    return Ok(());
                }
            }
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        answer.body.resize(length.ok_or_else(|| io::Error::other("an answer without a length"))?, 0);
        self.stream.read_exact(&mut answer.body)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
