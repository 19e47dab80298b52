use super::{Closed, Sender, channel};
use parking_lot::Mutex;
use std::sync::Arc;

#[tokio::test]
async fn those_who_wait_are_woken_in_their_order() {
    let (sender, receiver) = channel(0u32);
    let woken = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..50 {
        let (mut receiver, woken) = (receiver.clone(), woken.clone());
        waiting.spawn(async move {
            receiver.wait_for(|value| *value > 1).await.map(|value| *value).unwrap();
            woken.lock().push(number);
        });
    }
    for _ in 0..2 {
        tokio::task::yield_now().await;
        assert!(woken.lock().is_empty());
        sender.send_if_modified(|value| {
            *value += 1;
            true
        });
    }
    waiting.join_all().await;
    assert_eq!(*woken.lock(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn each_change_is_seen_once_and_the_end_is_told() {
    let (sender, mut receiver) = channel('a');
    assert_eq!(*receiver.borrow(), 'a');
    assert_eq!(sender.send_replace('b'), 'a');
    sender.clone().send('c').unwrap();
    receiver.changed().await.unwrap();
    assert_eq!(*receiver.borrow(), 'c');
    sender.send('d').unwrap();
    assert_eq!(*receiver.borrow_and_update(), 'd');
    // Seen already: only the next one counts.
    let mut late = sender.subscribe();
    assert!(!sender.send_if_modified(|_| false));
    let waiting = tokio::spawn(async move {
        late.changed().await.unwrap();
        let last = *late.borrow();
        (last, late.changed().await)
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    sender.send('e').unwrap();
    tokio::task::yield_now().await;
    drop(sender);
    assert_eq!(waiting.await.unwrap(), ('e', Err(Closed)));
    receiver.changed().await.unwrap();
    assert_eq!(receiver.changed().await, Err(Closed));
}

#[test]
fn nobody_there_is_an_error() {
    let sender = Sender::new(1);
    assert_eq!(sender.send(2), Err(2));
    assert_eq!(*sender.borrow(), 1);
    let receiver = sender.subscribe();
    sender.send(3).unwrap();
    drop(receiver);
    assert_eq!(sender.send(4), Err(4));
}
