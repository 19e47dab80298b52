use super::*;

fn bytes(notification: &Notification<'_>) -> Vec<u8> {
    let encoded = notification.encode(|header, parts| [&[header.as_bytes()], parts].concat().concat());
    let bytes = encoded.unwrap();
    assert_eq!(bytes.len(), u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, "the header's length");
    bytes
}

#[test]
fn golden_bytes() {
    // Length, code in place of the error, unique 0; then the arguments.
    let header = |len: u8, code: u8| vec![len, 0, 0, 0, code, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let node = [9, 0, 0, 0, 0, 0, 0, 0];
    let invalidate = Notification::InvalidateInode { node: NodeId(9), offset: -1, length: 0 };
    assert_eq!(bytes(&invalidate), [header(40, 2), node.to_vec(), vec![0xff; 8], vec![0; 8]].concat());
    let entry = Notification::InvalidateEntry { parent: NodeId(9), name: b"ab", expire_only: true };
    assert_eq!(bytes(&entry), [header(35, 3), node.to_vec(), vec![2, 0, 0, 0, 1, 0, 0, 0], b"ab\0".to_vec()].concat());
    let store = Notification::Store { node: NodeId(9), offset: 1, data: b"xyz" };
    assert_eq!(
        bytes(&store),
        [header(43, 4), node.to_vec(), vec![1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], b"xyz".to_vec()].concat()
    );
    let retrieve = Notification::Retrieve { number: 5, node: NodeId(9), offset: 2, size: 7 };
    let arguments = vec![2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes(&retrieve), [header(48, 5), vec![5, 0, 0, 0, 0, 0, 0, 0], node.to_vec(), arguments].concat());
    let delete = Notification::Delete { parent: NodeId(9), child: NodeId(3), name: b"c" };
    let arguments = vec![3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes(&delete), [header(42, 6), node.to_vec(), arguments, b"c\0".to_vec()].concat());
    assert_eq!(bytes(&Notification::Resend), header(16, 7));
}

#[test]
fn names_that_the_wire_does_not_carry_are_refused() {
    let long = vec![b'a'; MAX_NAME_BYTES + 1];
    let entry = |name| Notification::InvalidateEntry { parent: NodeId(1), name, expire_only: false }.encode(|_, _| ());
    assert_eq!(entry(&long), Err(Errno::NAMETOOLONG));
    assert_eq!(entry(b""), Err(Errno::INVAL));
    assert_eq!(entry(&long[1..]), Ok(()));
    let delete = Notification::Delete { parent: NodeId(1), child: NodeId(2), name: &long }.encode(|_, _| ());
    assert_eq!(delete, Err(Errno::NAMETOOLONG));
}
