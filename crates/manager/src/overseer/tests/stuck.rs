//! Gateways whose nodes apply nothing of what the manager decides, and speak.

use super::super::{BEHIND_MS, FIRST_BACKOFF_MS, FOUNDING_WAIT_MS, Heartbeat, Reason, STUCK_MS};
use super::scene::{CELL, STEP_MS, Scene, at, devices, gateways, heartbeat};
use crate::CommandIndex;
use crate::tests::nodes::register;
use types::{GatewayId, NodeId, ViewNumber};

/// What the nodes have applied that don't follow, and what the leader has.
const THEIRS: u64 = 7;
const LEADERS: u64 = 8;

/// The last lease of who is behind has ended by then: it was granted when it was not yet, for two seconds and a little for the drift of clocks.
const LEFT_MS: u64 = BEHIND_MS + 2_000 + 2 * STEP_MS;
const _: () = assert!(LEFT_MS > BEHIND_MS + STUCK_MS);

impl Scene {
    /// As [`Scene::pass`], under a leader that has applied so much.
    fn pass_leading(&mut self, leader: u64, ms: u64) {
        for _ in 0..ms / STEP_MS {
            self.overseer.follow(CommandIndex(leader), at(self.now_ms));
            self.pass(STEP_MS);
        }
    }

    /// View 3, of which these nodes' gateways do not follow.
    fn of_stuck(numbers: &[usize]) -> Scene {
        let mut scene = Scene::of_members();
        for number in numbers {
            scene.says(*number).applied = THEIRS;
        }
        scene.pass_leading(THEIRS, 20_000);
        assert_eq!(scene.proposed, [], "nothing was decided meanwhile");
        scene
    }
}

/// All others waited for it, in each view and with each change of a policy, for as long as its log had no room.
#[test]
fn a_gateway_whose_node_does_not_follow_leaves_without_its_device() {
    let mut scene = Scene::of_stuck(&[3]);
    scene.pass_leading(LEADERS, BEHIND_MS + STUCK_MS);
    assert_eq!(scene.proposed, []);
    scene.pass_leading(LEADERS, LEFT_MS - BEHIND_MS - STUCK_MS);
    let all = gateways(&[3]);
    assert_eq!(scene.proposed, [Reason::Stuck(all.clone()), Reason::LeasesEnded(all.clone())]);
    assert_eq!((scene.cell().view_members(), scene.table()), (&[GatewayId(1), GatewayId(2)][..], devices(&[0, 1, 2])));
    // It learns that it has left when it follows again.
    scene.apply(register(CELL, NodeId(3)));
    *scene.says(3) = Heartbeat { gateway: Some(GatewayId(4)), applied: THEIRS, ..heartbeat(3, ViewNumber(0)) };
    for number in [1, 2] {
        *scene.says(number) = Heartbeat { decided: all.clone(), recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
    }
    scene.pass_leading(LEADERS, 2 * FIRST_BACKOFF_MS);
    assert!(!scene.cell().is_in_view(GatewayId(4)), "not before: everybody would wait for it");
    scene.says(3).applied = LEADERS;
    scene.pass_leading(LEADERS, 2 * STEP_MS);
    assert!(scene.cell().is_in_view(GatewayId(4)), "{:?}", scene.proposed);
}

#[test]
fn all_leave_that_do_not_follow_but_one_stays_that_does() {
    let mut scene = Scene::of_stuck(&[1, 3]);
    scene.pass_leading(LEADERS, LEFT_MS);
    assert_eq!(scene.cell().view_members(), [GatewayId(2)], "{:?}", scene.proposed);
    let mut scene = Scene::of_stuck(&[1, 2, 3]);
    scene.pass_leading(LEADERS, 60_000);
    assert_eq!(scene.proposed, [], "nobody would be left");
}

/// No member follows, and another gateway does: it founds the cell, as if they were silent, and not one that does not follow either.
#[test]
fn who_follows_founds_the_cell_where_no_member_does() {
    let mut scene = Scene::of_stuck(&[1, 2, 3]);
    for (number, gateway) in [(4, 4), (5, 5)] {
        scene.add_target(number);
        scene.apply(register(CELL, NodeId(number.into())));
        scene.says(number.into()).gateway = Some(GatewayId(gateway));
        scene.says(number.into()).is_loadable = false;
    }
    scene.says(4).applied = THEIRS;
    scene.pass_leading(LEADERS, LEFT_MS + FOUNDING_WAIT_MS + 1_000);
    assert!(scene.proposed.contains(&Reason::NobodyLives(GatewayId(5))), "{:?}", scene.proposed);
    assert_eq!(scene.cell().view_members(), [GatewayId(5)]);
}

/// The leader stood still: what lies before it was said before nodes had applied what it had.
#[test]
fn one_late_heartbeat_takes_nobody_out() {
    let mut scene = Scene::of_stuck(&[3]);
    scene.pass_leading(LEADERS, STEP_MS);
    scene.now_ms += BEHIND_MS + STUCK_MS;
    scene.pass_leading(LEADERS, STEP_MS);
    scene.says(3).applied = LEADERS;
    scene.pass_leading(LEADERS, 20_000);
    assert_eq!(scene.proposed, []);
}

/// It follows now and then, which would cost a view and a recovery each time.
#[test]
fn who_did_not_follow_waits_before_it_is_taken_in_again() {
    let mut scene = Scene::of_stuck(&[3]);
    scene.pass_leading(LEADERS, LEFT_MS);
    scene.apply(register(CELL, NodeId(3)));
    *scene.says(3) = Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(3, ViewNumber(0)) };
    for number in [1, 2] {
        *scene.says(number) = Heartbeat { decided: gateways(&[3]), recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
    }
    scene.pass_leading(LEADERS, FIRST_BACKOFF_MS - 10 * STEP_MS);
    assert!(!scene.cell().is_in_view(GatewayId(4)));
    scene.pass_leading(LEADERS, 11 * STEP_MS);
    assert!(scene.cell().is_in_view(GatewayId(4)), "{:?}", scene.proposed);
}
