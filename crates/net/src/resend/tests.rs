use super::{Arrival, Incoming, NeverSent, Outgoing, StreamNumber};
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use std::collections::VecDeque;

#[test]
fn a_full_window_gives_the_item_back_until_the_peer_acknowledges() {
    let mut outgoing = Outgoing::new(2);
    outgoing.push('a').unwrap();
    outgoing.push('b').unwrap();
    assert_eq!(outgoing.push('c').unwrap_err().item, 'c');
    outgoing.acknowledge(StreamNumber(1)).unwrap();
    assert_eq!(outgoing.push('c').unwrap(), StreamNumber(3));
    assert_eq!(outgoing.unacknowledged().collect::<Vec<_>>(), [(StreamNumber(2), &'b'), (StreamNumber(3), &'c')]);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_an_error_and_changes_nothing() {
    let mut outgoing = Outgoing::new(4);
    outgoing.push('a').unwrap();
    let wrong = outgoing.acknowledge(StreamNumber(2));
    assert_eq!(wrong, Err(NeverSent { found: StreamNumber(2), sent: StreamNumber(1) }));
    assert_eq!(outgoing.unacknowledged().count(), 1);
}

#[test]
fn a_late_acknowledgement_changes_nothing() {
    let mut outgoing = Outgoing::new(4);
    for item in 0..3 {
        outgoing.push(item).unwrap();
    }
    outgoing.acknowledge(StreamNumber(2)).unwrap();
    outgoing.acknowledge(StreamNumber(1)).unwrap();
    assert_eq!(outgoing.unacknowledged().map(|(number, _)| number.0).collect::<Vec<_>>(), [3]);
}

/// What happens to one packet on its way, drawn by proptest.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Behind the packet that comes after it.
    Late,
}

fn fate() -> impl Strategy<Value = Fate> {
    any::<u8>().prop_map(|draw| match draw % 8 {
        0 => Fate::Lost,
        1 => Fate::Twice,
        2 => Fate::Late,
        _ => Fate::Arrives,
    })
}

proptest! {
    /// Whatever the connection does, what is taken is a prefix of what was sent; and once it behaves, everything arrives.
    #[test]
    fn every_item_arrives_once_and_in_order(fates in proptest::collection::vec(fate(), 1..80), window in 1usize..6) {
        let (mut outgoing, mut incoming) = (Outgoing::new(window), Incoming::default());
        let mut wire: VecDeque<(StreamNumber, u64)> = VecDeque::new();
        let (mut next_item, mut taken) = (0u64, Vec::new());
        for fate in fates {
            if let Ok(number) = outgoing.push(next_item) {
                wire.push_back((number, next_item));
                next_item += 1;
            }
            let Some(packet) = wire.pop_front() else {
                wire.extend(outgoing.unacknowledged().map(|(number, item)| (number, *item)));
                continue;
            };
            let copies = match fate {
                Fate::Arrives => 1,
                Fate::Lost => 0,
                Fate::Twice => 2,
                Fate::Late => {
                    wire.insert(wire.len().min(1), packet);
                    continue;
                }
            };
            for _ in 0..copies {
                if incoming.arrived(packet.0) == Arrival::Next {
                    taken.push(packet.1);
                }
                outgoing.acknowledge(incoming.taken()).unwrap();
            }
            prop_assert!(taken.iter().copied().eq(0..taken.len() as u64));
        }
        while outgoing.unacknowledged().next().is_some() {
            let again: Vec<_> = outgoing.unacknowledged().map(|(number, item)| (number, *item)).collect();
            for (number, item) in again {
                if incoming.arrived(number) == Arrival::Next {
                    taken.push(item);
                }
            }
            outgoing.acknowledge(incoming.taken()).unwrap();
        }
        prop_assert_eq!(taken, (0..next_item).collect::<Vec<_>>());
    }
}
