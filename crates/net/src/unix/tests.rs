use super::{LONE_ADDRESS, UnixNetwork, socket_of};
use crate::network::Network;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn addresses_are_sockets_of_the_folder_and_nothing_else() {
    assert_eq!(socket_of(LONE_ADDRESS).unwrap(), "node.sock");
    assert_eq!(socket_of(&UnixNetwork::address_of("a7")).unwrap(), "client-a7.sock");
    for elsewhere in ["", "127.0.0.1:9002", "this-machine/", "this-machine/../x", "this-machines", "this-machine/a.b"] {
        assert!(socket_of(elsewhere).is_err(), "{elsewhere}");
    }
}

#[tokio::test]
async fn a_node_in_a_deep_folder_is_reached_and_its_old_socket_replaced() {
    let root = tempfile::tempdir().unwrap();
    // The system takes no socket path of more than 107 bytes.
    let folder = root.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("node.sock"), b"left by a process that was killed").unwrap();
    let network = UnixNetwork::new(&folder);
    let mut listener = network.listen(LONE_ADDRESS).await.unwrap();
    let mode = std::fs::metadata(folder.join("node.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others connect to it");
    let (mut here, accepted) = tokio::join!(network.connect(LONE_ADDRESS), listener.accept());
    accepted.unwrap().write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    here.as_mut().unwrap().read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    drop(listener);
    assert!(network.connect(LONE_ADDRESS).await.is_err());
    assert!(!folder.join("node.sock").exists());
}
