//! What the experiments compute and write; that they run is shown by the program's own tests.

use super::client::length_of;

#[test]
fn lengths_of_answers() {
    assert_eq!(length_of("HTTP/1.1 200 OK\r\nContent-length: 12\r\n\r\n"), Some(12));
    assert_eq!(length_of("HTTP/1.1 200 OK\r\n\r\n"), None);
}
