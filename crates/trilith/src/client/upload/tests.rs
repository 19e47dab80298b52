use super::PART_BYTES;
use crate::client::{Http, S3};
use env::Env;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// A server that takes all that an upload asks for; what it was asked, in order. After each part it does something else first.
fn takes_uploads(meanwhile: impl Fn() + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap().to_string(), Arc::new(Mutex::new(Vec::new())));
    let (meanwhile, seen) = (Arc::new(meanwhile), asked.clone());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (meanwhile, seen) = (meanwhile.clone(), seen.clone());
            std::thread::spawn(move || serve(&stream, &*meanwhile, &seen));
        }
    });
    (address, asked)
}

fn serve(stream: &TcpStream, meanwhile: &dyn Fn(), seen: &Mutex<Vec<String>>) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if reader.read_line(&mut first).is_ok_and(|read| read > 0) {
            let headers = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            for line in headers {
                let value = line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned);
                length = value.map_or(length, |value| value.parse().unwrap());
            }
        } else {
            return;
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
        if first.contains("partNumber=") {
            meanwhile();
        }
        seen.lock().push(first.split("?uploadId").next().unwrap().split(" HTTP").next().unwrap().to_owned());
        let xml = "<UploadId>one</UploadId>";
        write!(writer, "HTTP/1.1 200 OK\r\nETag: \"tag\"\r\nContent-Length: {}\r\n\r\n{xml}", xml.len()).unwrap();
    }
}

/// Sends a file in two parts, and does something meanwhile; how that ended, and the last thing that the server was asked.
async fn send(change: fn(&File)) -> (anyhow::Result<u64>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = File::create(&path).unwrap();
    file.set_len(PART_BYTES + 1).unwrap();
    let (address, asked) = takes_uploads(move || change(&file));
    let s3 = S3::new(Http::new(&address).unwrap(), None, Env::real_with_cores(1));
    let ended = s3.put_file(&path, "bucket", "key", &[]).await;
    let last = asked.lock().last().unwrap().clone();
    (ended, last)
}

#[tokio::test]
async fn a_file_that_changes_between_its_parts_is_not_stored() {
    let (ended, last) = send(|_| {}).await;
    assert_eq!((ended.unwrap(), last.as_str()), (PART_BYTES + 1, "POST /bucket/key"));
    // As long as before, and longer.
    let touched: fn(&File) = |file| file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    let longer: fn(&File) = |file| file.set_len(PART_BYTES + 2).unwrap();
    for change in [touched, longer] {
        let (ended, last) = send(change).await;
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("has changed while it was sent") && last == "DELETE /bucket/key", "{error} {last}");
    }
}
