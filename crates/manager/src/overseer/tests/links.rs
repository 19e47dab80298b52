//! Links between members that fail, and what comes back when.

use types::{GatewayId, NodeId, ViewNumber};

use super::super::{BACKOFF_FORGOTTEN_MS, FIRST_BACKOFF_MS, Heartbeat, Reason, SILENCE_MS, UNREACHABLE_GATEWAY_MS};
use super::scene::{CELL, STEP_MS, Scene, devices, gateways, heartbeat};
use crate::tests::nodes::register;

#[test]
fn the_devices_beside_a_gateway_that_can_not_be_reached_leave_with_it() {
    let mut scene = Scene::of_members();
    scene.says(1).unreachable_gateways = gateways(&[2]);
    scene.says(2).unreachable_gateways = gateways(&[1]);
    scene.says(1).unreachable_devices = devices(&[1]);
    scene.says(2).unreachable_devices = devices(&[0]);
    // Two seconds for the lease, a little for the drift of clocks.
    scene.pass(UNREACHABLE_GATEWAY_MS + STEP_MS + 2_010);
    assert_eq!((scene.cell().view_members(), scene.table()), (&[GatewayId(1), GatewayId(3)][..], devices(&[0, 2])));
    let expected = [Reason::Unreachable(GatewayId(2)), Reason::LeasesEnded(gateways(&[2]))];
    assert_eq!(scene.proposed, expected, "both in one view");
}

/// Node 2's gateway was removed, is decided, and wants to join as gateway 4 after its wait.
fn scene_of_a_return() -> Scene {
    let mut scene = Scene::of_members();
    scene.says(1).unreachable_gateways = gateways(&[2]);
    scene.pass(UNREACHABLE_GATEWAY_MS + STEP_MS);
    scene.apply(register(CELL, NodeId(2)));
    *scene.says(2) = Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(2, ViewNumber(0)) };
    for number in [1, 3] {
        *scene.says(number) = Heartbeat { decided: gateways(&[2]), recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
    }
    scene
}

#[test]
fn who_does_not_reach_a_member_does_not_join_until_it_does() {
    for reporter in [1, 2] {
        let mut scene = scene_of_a_return();
        let reported = if reporter == 1 { 4 } else { 1 };
        scene.says(reporter).unreachable_gateways = gateways(&[reported]);
        scene.pass(2 * FIRST_BACKOFF_MS);
        assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(3)], "{reporter} reports {reported}");
        scene.says(reporter).unreachable_gateways.clear();
        scene.pass(STEP_MS);
        assert!(scene.cell().is_in_view(GatewayId(4)), "{:?}", scene.proposed);
    }
}

#[test]
fn a_device_that_went_with_its_silent_node_comes_back_with_it() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    // The others say what they see, too.
    scene.says(1).unreachable_devices = devices(&[2]);
    let node = scene.says[2].take();
    scene.pass(SILENCE_MS + 600);
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene.says[2] = node;
    scene.says(1).unreachable_devices.clear();
    scene.pass(STEP_MS);
    assert!(!scene.cell().undecided.is_empty(), "its gateway left");
    *scene.says(1) = Heartbeat { decided: gateways(&[3]), recovered: true, ..heartbeat(1, ViewNumber(0)) };
    scene.says(2).decided = gateways(&[3]);
    scene.pass(3 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 2]), "{:?}", scene.proposed);
}

/// The others notice that a node has died, and report its devices, before it has been silent for long enough.
#[test]
fn who_was_reported_and_then_silent_comes_back_without_a_wait_however_often() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    for gateway in [3, 4, 5] {
        let (node, next) = (scene.says[2].take(), gateway + 1);
        for number in [1, 2] {
            scene.says(number).unreachable_devices = devices(&[2]);
        }
        scene.pass(STEP_MS);
        assert_eq!((scene.cell().is_in_view(GatewayId(gateway)), scene.table()), (true, devices(&[0, 1])), "reported");
        scene.pass(SILENCE_MS + 2_500);
        assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(2)]);
        scene.apply(register(CELL, NodeId(3)));
        scene.says[2] = node.map(|node| Heartbeat { gateway: Some(GatewayId(next)), ..node });
        for number in [1, 2] {
            let decided = gateways(&[gateway]);
            *scene.says(number) = Heartbeat { decided, recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
        }
        scene.pass(5 * STEP_MS);
        assert!(scene.cell().is_in_view(GatewayId(next)), "{:?}", scene.proposed);
        assert_eq!(scene.table(), devices(&[0, 1, 2]), "{:?}", scene.proposed);
    }
}

/// The manager's leader has died, with its gateway. The next one takes that as heard for a while, but hears from the others that it can't be reached.
#[test]
fn who_never_spoke_to_a_leader_comes_back_without_a_wait() {
    let mut scene = Scene::of_members();
    scene.says[2] = None;
    scene.says(1).unreachable_gateways = gateways(&[3]);
    scene.says(1).unreachable_devices = devices(&[2]);
    scene.says(2).unreachable_devices = devices(&[2]);
    scene.pass(2_100);
    assert!(scene.proposed.contains(&Reason::Unreachable(GatewayId(3))), "{:?}", scene.proposed);
    assert_eq!((scene.cell().view_members(), scene.table()), (&[GatewayId(1), GatewayId(2)][..], devices(&[0, 1])));
    scene.apply(register(CELL, NodeId(3)));
    scene.says[2] = Some(Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(3, ViewNumber(0)) });
    for number in [1, 2] {
        *scene.says(number) = Heartbeat { decided: gateways(&[3]), recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
    }
    scene.pass(5 * STEP_MS);
    assert_eq!((scene.cell().is_in_view(GatewayId(4)), scene.table()), (true, devices(&[0, 1, 2])), "{:?}", scene.proposed);
}

#[test]
fn a_wait_that_was_long_ago_does_not_make_the_next_one_longer() {
    let mut scene = Scene::of_members();
    for _ in 0..3 {
        scene.says(1).unreachable_devices = devices(&[2]);
        scene.says(2).unreachable_devices = devices(&[2]);
        scene.pass(STEP_MS);
        assert_eq!(scene.table(), devices(&[0, 1]));
        scene.says(1).unreachable_devices.clear();
        scene.says(2).unreachable_devices.clear();
        scene.pass(FIRST_BACKOFF_MS + 3 * STEP_MS);
        assert_eq!(scene.table(), devices(&[0, 1, 2]));
        scene.pass(BACKOFF_FORGOTTEN_MS);
    }
}
