use format::chunk_command::CopyOf;

use crate::limits::{MEND_PATIENCE, NODE_SILENCE};
use crate::units::leading::fixture::{leading, manager_of_four, place, report, unit_of};
use crate::units::leading::healing::Healing;

/// It was moved instead once its time was up, which waits for the same node, and modifications of the chunk for that.
#[tokio::test(start_paused = true)]
async fn a_mend_that_waits_for_a_silent_node_is_not_given_up() {
    let (manager, unit) = (manager_of_four(1).await, unit_of(2));
    let mut leading = leading(&unit);
    let (id, places) = unit.index().next().expect("a page");
    let rotten = places.as_slice()[0];
    let (own, other) = (rotten.device().0 + 1, places.as_slice()[1].device().0 + 1);
    // Long after the leader began.
    let mut now = leading.began + 10 * NODE_SILENCE;
    let mut healed = |silent: Option<u32>| {
        now = now + MEND_PATIENCE;
        let nodes = (1..=4).filter(|node| Some(*node) != silent);
        nodes.for_each(|node| {
            let rotten = if node == own { vec![CopyOf { id, place: rotten }] } else { Vec::new() };
            leading.reported(now, report(node, rotten, Vec::new()));
        });
        leading.take_stock(now, &manager.snapshot(), &unit);
        let Healing { orders, mend, .. } = leading.heal(now, &manager.snapshot(), &unit, &mut || 1);
        (orders.len(), mend.first().map(|mend| (mend.is_whole, mend.others.clone())))
    };
    for _ in 0..2 {
        assert_eq!(healed(Some(other)), (0, Some((false, Vec::new()))));
        assert_eq!(healed(Some(own)), (0, Some((false, vec![place(other - 1)]))), "its own");
    }
    assert_eq!(healed(None), (0, Some((true, vec![place(other - 1)]))), "its time begins");
    assert_eq!(healed(None), (1, None), "it was in vain");
}
