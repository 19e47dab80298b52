use std::os::fd::OwnedFd;

use proptest::collection::vec;
use proptest::prelude::*;

use super::message::{MAX_LABEL_BYTES, Message};

fn descriptors(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| tempfile::tempfile().unwrap().into()).collect()
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_refused(mut bytes in vec(any::<u8>(), 0..64), small: bool, count in 0..3_usize) {
        if let Some(kind) = bytes.first_mut().filter(|_| small) {
            *kind %= 7;
        }
        let carries = matches!(bytes.first(), Some(1 | 4));
        match Message::decode(&bytes, descriptors(count)) {
            Some(Message::Keep { key, label, .. } | Message::Held { key, label, .. }) => {
                prop_assert!(carries && count == 1);
                prop_assert_eq!((&key.to_le_bytes()[..], &label[..]), (&bytes[1..9], &bytes[9..]));
            }
            Some(_) => prop_assert!(!carries && count == 0 && bytes.len() == 9),
            None => {}
        }
    }
}

#[test]
fn messages_arrive_as_they_were_sent() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let label = vec![7; MAX_LABEL_BYTES];
    Message::Keep { key: 5, label: label.clone(), record: descriptors(1).remove(0) }.send(&one).unwrap();
    let Some(Message::Keep { key: 5, label: found, .. }) = Message::receive(&other).unwrap() else { panic!("another message") };
    assert_eq!(found, label);
    let too_long = Message::Held { key: 5, label: vec![7; MAX_LABEL_BYTES + 1], record: descriptors(1).remove(0) };
    assert!(too_long.send(&one).is_err());
    Message::Release { key: u64::MAX }.send(&one).unwrap();
    assert!(matches!(Message::receive(&other).unwrap(), Some(Message::Release { key: u64::MAX })));
    drop(one);
    assert!(Message::receive(&other).unwrap().is_none());
}
