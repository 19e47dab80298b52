use super::*;
use std::os::unix::net::UnixStream;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn only_the_owner_may_connect_and_the_file_goes_with_the_last_listener() {
    let folder = folder();
    let path = folder.path().join("nbd.sock");
    let listener = Listener::unix(&path).expect("a free path");
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, SOCKET_MODE);
    let copy = listener.try_clone().expect("a copy");
    drop(listener);
    assert!(path.exists(), "a copy still listens");
    drop(copy);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    let folder = folder();
    let path = folder.path().join("nbd.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a free path"));
    assert!(path.exists(), "the standard library leaves it there");
    let listener = Listener::unix(&path).expect("it is stale");
    assert!(UnixStream::connect(&path).is_ok());
    drop(listener);
}

#[test]
fn a_path_that_is_in_use_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("nbd.sock");
    let listener = Listener::unix(&path).expect("a free path");
    assert!(matches!(Listener::unix(&path), Err(ListenError::InUse { .. })));
    assert!(UnixStream::connect(&path).is_ok());
    drop(listener);
    fs::write(&path, "a file").expect("a free path");
    assert!(matches!(Listener::unix(&path), Err(ListenError::NotASocket { .. })));
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "a file");
}

#[test]
fn a_file_of_a_later_server_stays() {
    let folder = folder();
    let path = folder.path().join("nbd.sock");
    let listener = Listener::unix(&path).expect("a free path");
    fs::remove_file(&path).expect("it is there");
    let later = Listener::unix(&path).expect("a free path");
    drop(listener);
    assert!(UnixStream::connect(&path).is_ok());
    drop(later);
}

#[test]
fn a_port_that_is_in_use_is_named() {
    let listener = Listener::tcp("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let address = listener.address().expect("it is bound").expect("it is TCP");
    match Listener::tcp(address) {
        Err(ListenError::InUse { place }) => assert_eq!(place, address.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Caught: a connection to try whether a program listens there waited for ever, and with it the thread.
#[test]
fn a_program_that_takes_no_connections_keeps_no_thread_waiting() {
    let folder = folder();
    let path = folder.path().join("full.sock");
    let server = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    server.bind(&SockAddr::unix(&path).unwrap()).unwrap();
    server.listen(0).unwrap();
    let connect = || {
        let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        client.set_nonblocking(true).unwrap();
        client.connect(&SockAddr::unix(&path).unwrap()).map(|()| client)
    };
    let waiting: Vec<Socket> = std::iter::from_fn(|| connect().ok()).take(16).collect();
    assert!(waiting.len() < 16, "its queue is full");
    assert!(matches!(Listener::unix(&path), Err(ListenError::InUse { .. })));
}
