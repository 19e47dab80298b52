use super::{MAX_CELL_GATEWAYS, View, ViewError};
use types::{GatewayId, KEY_HASH_BYTES, KeyHash, ViewNumber};

fn view(number: u64, members: &[u16]) -> View {
    View::new(ViewNumber(number), members.iter().copied().map(GatewayId).collect()).unwrap()
}

#[test]
fn members_are_ascending_and_distinct() {
    assert_eq!(view(1, &[3, 1, 3, 2]).members(), [GatewayId(1), GatewayId(2), GatewayId(3)]);
}

#[test]
fn a_view_has_one_to_five_members() {
    assert_eq!(View::new(ViewNumber(1), Vec::new()), Err(ViewError::Empty));
    let six = (0..6).map(GatewayId).collect();
    assert_eq!(View::new(ViewNumber(1), six), Err(ViewError::TooMany { found: 6 }));
    assert_eq!(view(1, &[0, 1, 2, 3, 4]).members().len(), MAX_CELL_GATEWAYS);
}

#[test]
fn the_next_view_says_who_leaves() {
    let old = view(7, &[1, 2, 3]);
    let new = old.next(vec![GatewayId(2), GatewayId(4)]).unwrap();
    assert_eq!(new.number(), ViewNumber(8));
    assert_eq!(old.leaving(&new).collect::<Vec<_>>(), [GatewayId(1), GatewayId(3)]);
    assert!(new.contains(GatewayId(4)) && !new.contains(GatewayId(1)));
}

#[test]
fn every_member_is_home_of_some_keys() {
    let view = view(1, &[10, 20, 30]);
    let homes: std::collections::BTreeSet<GatewayId> = (0..30u8)
        .map(|key| {
            let mut bytes = [0; KEY_HASH_BYTES];
            bytes[12] = key;
            view.home(&KeyHash::from_bytes(bytes))
        })
        .collect();
    assert_eq!(homes.into_iter().collect::<Vec<_>>(), view.members());
}
