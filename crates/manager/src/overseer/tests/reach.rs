//! One member can't reach what the others do.

use types::{GatewayId, NodeId, ViewNumber};

use super::super::{FIRST_BACKOFF_MS, Heartbeat, ONE_SIDED_GATEWAY_MS, Reason, UNREACHABLE_DEVICE_MS, UNREACHABLE_GATEWAY_MS};
use super::scene::{CELL, STEP_MS, Scene, devices, gateways, heartbeat};
use crate::LeaveCell;
use crate::tests::nodes::register;

fn unreachable(gateway: u16) -> Reason {
    Reason::Unreachable(GatewayId(gateway))
}

fn leave(scene: &mut Scene, gateway: u16) {
    scene.apply(LeaveCell { cell: CELL, gateway: GatewayId(gateway) });
}

/// A node comes back as another gateway, and whoever left is decided.
fn comes_back(scene: &mut Scene, node: usize, gateway: u16, former: u16) {
    scene.apply(register(CELL, NodeId(node as u32)));
    *scene.says(node) = Heartbeat { gateway: Some(GatewayId(gateway)), ..heartbeat(node as u16, ViewNumber(0)) };
    for number in (1..4).filter(|number| *number != node) {
        scene.says(number).decided.insert(GatewayId(former));
        scene.says(number).recovered = true;
    }
}

/// Its reports are about healthy members, and nobody reports it. Caught: they left one after the other, and it stayed.
#[test]
fn one_that_reaches_nobody_leaves_and_not_everybody_else() {
    let mut scene = Scene::of_five();
    scene.says(5).unreachable_gateways = gateways(&[1, 2, 3]);
    scene.pass(ONE_SIDED_GATEWAY_MS);
    assert_eq!(scene.proposed, []);
    scene.pass(20_000);
    assert_eq!(scene.proposed, [unreachable(5), Reason::LeasesEnded(gateways(&[5]))]);
    assert_eq!((scene.cell().view_members().len(), scene.table().len()), (4, 5), "all that stay reach its device");
}

#[test]
fn two_that_do_not_reach_the_others_leave() {
    let mut scene = Scene::of_five();
    for number in [1, 4] {
        scene.says(number).unreachable_gateways = gateways(&[2, 3, 5]);
    }
    scene.pass(ONE_SIDED_GATEWAY_MS + STEP_MS);
    assert_eq!(scene.proposed, [unreachable(4), unreachable(1)]);
}

/// Whoever notices first is for a moment the only one that reports anybody.
#[test]
fn two_that_are_lost_leave_and_not_who_notices_first() {
    let mut scene = Scene::of_five();
    for number in [1, 2, 3] {
        scene.says(number).unreachable_gateways = gateways(&[4, 5]);
        scene.says(number).unreachable_devices = devices(&[3, 4]);
        scene.pass(700);
    }
    scene.pass(3_500);
    assert_eq!(scene.proposed.iter().filter(|reason| matches!(reason, Reason::Unreachable(_))).count(), 2);
    assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(2), GatewayId(3)], "{:?}", scene.proposed);
    assert_eq!(scene.table(), devices(&[0, 1, 2]));
}

/// A leader has died with its gateway, and another one. The next leader takes both as heard, and one member has noticed first.
#[test]
fn two_that_died_before_a_leader_began_leave_as_silent() {
    let mut scene = Scene::of_five();
    scene.start();
    (scene.says[3], scene.says[4]) = (None, None);
    scene.says(1).unreachable_gateways = gateways(&[4, 5]);
    scene.pass(4_000);
    assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(2), GatewayId(3)], "{:?}", scene.proposed);
}

#[test]
fn of_two_members_the_reported_one_leaves() {
    let mut scene = Scene::of_members();
    scene.says[2] = None;
    leave(&mut scene, 3);
    scene.pass(3_000);
    scene.proposed.clear();
    scene.says(2).unreachable_gateways = gateways(&[1]);
    scene.pass(UNREACHABLE_GATEWAY_MS + STEP_MS);
    assert_eq!(scene.proposed, [unreachable(1)]);
}

/// Caught: its report took all other devices out of the table, and everybody wrote to the one that was left.
#[test]
fn one_that_does_not_reach_the_devices_leaves_and_they_stay() {
    let mut scene = Scene::of_members_and_targets(3);
    scene.says(1).unreachable_devices = devices(&[1, 2, 3, 4]);
    scene.pass(UNREACHABLE_DEVICE_MS);
    assert_eq!(scene.proposed, []);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed, [Reason::OneSided(GatewayId(1))]);
    scene.pass(3_000);
    assert_eq!((scene.cell().view_members(), scene.table().len()), (&[GatewayId(2), GatewayId(3)][..], 6));
    // It does not join while it reports what it would leave for again.
    comes_back(&mut scene, 1, 4, 1);
    scene.says(1).unreachable_devices = devices(&[1, 2, 3, 4]);
    scene.pass(STEP_MS);
    let view = scene.cell().view_number();
    scene.pass(3 * FIRST_BACKOFF_MS);
    assert_eq!((scene.cell().view_number(), scene.table().len()), (view, 6), "{:?}", scene.proposed);
    scene.says(1).unreachable_devices.clear();
    scene.pass(STEP_MS);
    assert!(scene.cell().is_in_view(GatewayId(4)), "{:?}", scene.proposed);
}

#[test]
fn who_left_for_devices_waits() {
    let mut scene = Scene::of_members_and_targets(1);
    scene.says(1).unreachable_devices = devices(&[1, 3]);
    scene.pass(UNREACHABLE_DEVICE_MS + STEP_MS);
    comes_back(&mut scene, 1, 4, 1);
    scene.pass(FIRST_BACKOFF_MS - 2 * STEP_MS);
    assert!(!scene.cell().is_in_view(GatewayId(4)));
    scene.pass(3 * STEP_MS);
    assert!(scene.cell().is_in_view(GatewayId(4)), "{:?}", scene.proposed);
}

/// What one of them reports would leave enough, what both do would not: the one that reports more leaves.
#[test]
fn what_two_do_not_reach_is_taken_together() {
    let mut scene = Scene::of_members_and_targets(2);
    scene.says(2).unreachable_devices = devices(&[0, 3]);
    scene.says(3).unreachable_devices = devices(&[4]);
    scene.pass(UNREACHABLE_DEVICE_MS + STEP_MS);
    assert_eq!(scene.proposed, [Reason::OneSided(GatewayId(2))]);
    scene.pass(3_000);
    assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(3)]);
    assert_eq!(scene.table(), devices(&[0, 1, 2, 3]), "four hosts are left without what the other one reports");
}

/// Most had a device taken out. One of them is started again, and the other is one of two then: it does not leave for what was
/// right.
#[test]
fn a_device_that_most_had_taken_out_stays_out_when_one_of_them_has_left() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says(1).unreachable_devices = devices(&[2]);
    scene.says(2).unreachable_devices = devices(&[2]);
    scene.pass(4_000);
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene.says(3).gateway = None;
    leave(&mut scene, 3);
    scene.pass(1_000);
    assert_eq!(scene.cell().view_members().len(), 2);
    scene.says(2).unreachable_devices.clear();
    scene.pass(20_000);
    assert_eq!((scene.cell().view_members().len(), scene.table()), (2, devices(&[0, 1])), "{:?}", scene.proposed);
}

/// The founder reaches two of six devices: it had the others taken out while nobody else was there.
/// Two miss a device, and one of them is the last to reach it again. Caught: it left for that, and came back after its wait.
#[test]
fn the_last_one_that_reaches_a_device_again_stays_if_it_soon_does() {
    for is_soon in [true, false] {
        let mut scene = Scene::of_members();
        scene.pass(1_000);
        for number in [1, 2] {
            scene.says(number).unreachable_devices = devices(&[2]);
        }
        scene.pass(2 * FIRST_BACKOFF_MS);
        assert_eq!(scene.table(), devices(&[0, 1]), "{:?}", scene.proposed);
        scene.proposed.clear();
        scene.says(1).unreachable_devices.clear();
        scene.pass(UNREACHABLE_DEVICE_MS - STEP_MS);
        assert_eq!(scene.proposed, []);
        if is_soon {
            scene.says(2).unreachable_devices.clear();
        }
        scene.pass(5 * STEP_MS);
        match is_soon {
            true => assert_eq!(scene.proposed, [Reason::Devices(devices(&[0, 1, 2]))]),
            false => assert_eq!(scene.proposed, [Reason::OneSided(GatewayId(2))]),
        }
    }
}

#[test]
fn one_that_holds_devices_back_leaves_when_most_reach_them() {
    let mut scene = Scene::of_learners();
    (4..7).for_each(|number| scene.add_target(number));
    scene.says(1).unreachable_devices = devices(&[1, 3, 4, 5]);
    scene.start();
    scene.pass(10_000);
    assert_eq!(
        scene.proposed.iter().filter(|reason| **reason == Reason::OneSided(GatewayId(1))).count(),
        1,
        "{:?}",
        scene.proposed
    );
    comes_back(&mut scene, 1, 4, 1);
    scene.says(1).unreachable_devices = devices(&[1, 3, 4, 5]);
    scene.pass(FIRST_BACKOFF_MS);
    assert_eq!(
        (scene.cell().view_members(), scene.table().len()),
        (&[GatewayId(2), GatewayId(3)][..], 6),
        "{:?}",
        scene.proposed
    );
}

/// It can't read the maps, say because a device is away that alone has a part. Caught: two views and a recovery each time, as
/// fast as that goes.
#[test]
fn one_that_leaves_before_it_has_its_maps_waits_before_it_joins_again() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    leave(&mut scene, 3);
    let mut wait_ms = 0;
    for (former, gateway) in [(3, 4), (4, 5), (5, 6)] {
        comes_back(&mut scene, 3, gateway, former);
        scene.says(3).wants_lease = false;
        scene.pass(wait_ms);
        assert!(!scene.cell().is_in_view(GatewayId(gateway)), "after {wait_ms} ms");
        scene.pass(6 * STEP_MS);
        assert!(scene.cell().is_in_view(GatewayId(gateway)), "after {wait_ms} ms and more: {:?}", scene.proposed);
        leave(&mut scene, gateway);
        scene.pass(STEP_MS);
        wait_ms = if wait_ms == 0 { FIRST_BACKOFF_MS - 4 * STEP_MS } else { 2 * FIRST_BACKOFF_MS - 4 * STEP_MS };
    }
}

#[test]
fn one_that_had_its_maps_joins_again_at_once() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    leave(&mut scene, 3);
    for (former, gateway) in [(3, 4), (4, 5), (5, 6)] {
        comes_back(&mut scene, 3, gateway, former);
        scene.pass(6 * STEP_MS);
        assert!(scene.cell().is_in_view(GatewayId(gateway)), "{:?}", scene.proposed);
        leave(&mut scene, gateway);
        scene.pass(STEP_MS);
    }
}
