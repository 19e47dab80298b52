//! Each rule by itself, over three members with a device each.

use super::super::{
    BEHIND_MS, DeviceReport, FEW_HOSTS_BACKOFF_MS, FIRST_BACKOFF_MS, FOUNDING_WAIT_MS, Heartbeat, Input, PROPOSAL_RETRY_MS,
    Proposal, Reason, Refused, SILENCE_MS, UNREACHABLE_DEVICE_MS, UNREACHABLE_GATEWAY_MS,
};
use super::scene::{CELL, STEP_MS, Scene, at, devices, gateways, heartbeat};
use crate::tests::nodes::register;
use crate::{BeginRemoval, CommandIndex, LeaveCell, PlaceDevice};
use types::{CellId, DeviceId, GatewayId, NodeId, ViewNumber};

#[test]
fn nothing_is_proposed_while_all_is_well() {
    let mut scene = Scene::of_members();
    scene.pass(20_000);
    assert_eq!(scene.proposed, []);
}

#[test]
fn leases_are_the_newest_views_members() {
    let mut scene = Scene::of_members();
    let now = ViewNumber(3);
    assert_eq!(scene.lease(heartbeat(1, now)), Ok(GatewayId(1)));
    assert_eq!(scene.lease(heartbeat(1, ViewNumber(2))), Err(Refused::OtherView));
    assert_eq!(scene.lease(Heartbeat { wants_lease: false, ..heartbeat(1, now) }), Err(Refused::NotWanted));
    assert_eq!(scene.lease(Heartbeat { gateway: None, ..heartbeat(1, now) }), Err(Refused::NotWanted));
    assert_eq!(scene.lease(Heartbeat { gateway: Some(GatewayId(9)), ..heartbeat(1, now) }), Err(Refused::NotRegistered));
    assert_eq!(scene.lease(Heartbeat { node: NodeId(2), ..heartbeat(1, now) }), Err(Refused::NotRegistered));
    scene.commits = false;
    scene.apply(BeginRemoval { cell: CELL, view: now, gateways: gateways(&[1]) });
    assert_eq!(scene.lease(heartbeat(1, now)), Err(Refused::Removing));
    scene.apply(register(CELL, NodeId(1)));
    let learner = Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(1, now) };
    assert_eq!(scene.lease(learner), Err(Refused::NotInView));
    let outputs = scene.overseer.step(Input::Heartbeat(Heartbeat { cell: CellId(1), ..heartbeat(2, now) }), at(scene.now_ms));
    assert_eq!(outputs, [], "another overseer's");
    assert_eq!(scene.overseer.step(Input::Stopped, at(scene.now_ms)), []);
    assert_eq!(scene.overseer.step(Input::Heartbeat(heartbeat(2, now)), at(scene.now_ms)), []);
}

/// Its log has no room, or it is cut off from the manager and not from the others: it went on serving by a policy that was taken away, under leases without end.
#[test]
fn a_gateway_whose_node_does_not_follow_gets_no_lease() {
    let mut scene = Scene::of_members();
    let says = |applied| Heartbeat { applied, ..heartbeat(1, ViewNumber(3)) };
    let mut lease_after = |ms, applied, leader| {
        scene.now_ms += ms;
        scene.overseer.follow(CommandIndex(leader), at(scene.now_ms));
        scene.lease(says(applied))
    };
    assert_eq!(lease_after(0, 7, 7), Ok(GatewayId(1)));
    assert_eq!(lease_after(20_000, 7, 7), Ok(GatewayId(1)));
    assert_eq!(lease_after(0, 7, 8), Ok(GatewayId(1)));
    assert_eq!(lease_after(BEHIND_MS - 1, 7, 9), Ok(GatewayId(1)));
    assert_eq!(lease_after(1, 7, 9), Err(Refused::Behind));
    assert_eq!(lease_after(0, 8, 9), Ok(GatewayId(1)), "it has what was applied then");
    assert_eq!(lease_after(BEHIND_MS, 8, 9), Err(Refused::Behind));
    assert_eq!(lease_after(0, 9, 10), Ok(GatewayId(1)));
}

#[test]
fn a_silent_gateway_leaves_with_its_device_when_its_lease_has_ended() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says[2] = None;
    scene.pass(SILENCE_MS - STEP_MS);
    assert_eq!(scene.proposed, []);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed, [Reason::Silent(gateways(&[3]))]);
    // Granted 1.5 s ago, it ends 2.004 s after that.
    scene.pass(500);
    assert_eq!(scene.cell().view_number(), ViewNumber(3));
    scene.pass(STEP_MS);
    assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(2)]);
    assert_eq!(scene.table(), devices(&[0, 1]));
    assert_eq!(scene.proposed[1..], [Reason::LeasesEnded(gateways(&[3]))]);
}

/// The leader of the manager stood still, or waited for its followers' disks: the first heartbeat that was looked at afterwards had all other gateways removed.
#[test]
fn nobody_is_silent_who_was_not_listened_to() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    let view = ViewNumber(3);
    scene.now_ms += SILENCE_MS + 300;
    for number in 1..4 {
        scene.hand_in(Input::Heartbeat(heartbeat(number, view)));
        assert_eq!(scene.proposed, [], "after gateway {number}'s");
    }
    // One of them is silent in truth.
    scene.says[2] = None;
    scene.now_ms += SILENCE_MS + 300;
    scene.hand_in(Input::Heartbeat(heartbeat(1, view)));
    assert_eq!(scene.proposed, []);
    scene.pass(SILENCE_MS);
    assert_eq!(scene.proposed[..1], [Reason::Silent(gateways(&[3]))]);
}

/// All links pause for less than an election takes: the leader knows for a second that it leads, is told the time, and hears its
/// own node alone.
#[test]
fn nobody_is_silent_while_the_leader_hears_only_itself() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    let others = scene.says.split_off(1);
    scene.pass(1_100);
    scene.now_ms += 800;
    let view = ViewNumber(3);
    for number in 1..4 {
        scene.hand_in(Input::Heartbeat(heartbeat(number, view)));
        assert_eq!(scene.proposed, [], "after gateway {number}'s");
    }
    // One of them is silent from now on.
    scene.says.extend(others);
    scene.says[2] = None;
    scene.pass(SILENCE_MS);
    assert_eq!(scene.proposed[..1], [Reason::Silent(gateways(&[3]))]);
}

/// Its steps are far apart all the time.
#[test]
fn who_is_silent_is_missed_by_a_leader_that_is_slow_too() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    for _ in 0..4 {
        scene.now_ms += 2 * SILENCE_MS;
        (1..3).for_each(|number| scene.hand_in(Input::Heartbeat(heartbeat(number, ViewNumber(3)))));
    }
    assert_eq!(scene.proposed[..1], [Reason::Silent(gateways(&[3]))]);
}

#[test]
fn a_new_leader_takes_everybodys_lease_for_granted() {
    let mut scene = Scene::of_members();
    scene.commits = false;
    scene.apply(BeginRemoval { cell: CELL, view: ViewNumber(3), gateways: gateways(&[3]) });
    scene.pass(10_000);
    scene.start();
    scene.proposed.clear();
    scene.pass(2_000);
    assert_eq!(scene.proposed, []);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed, [Reason::LeasesEnded(gateways(&[3]))]);
}

#[test]
fn who_left_by_itself_is_not_waited_for() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says[2] = None;
    scene.apply(LeaveCell { cell: CELL, gateway: GatewayId(3) });
    assert_eq!(scene.cell().view_members(), [GatewayId(1), GatewayId(2)]);
}

#[test]
fn of_two_that_can_not_reach_each_other_the_greater_leaves_and_comes_back_later_each_time() {
    let mut scene = Scene::of_members();
    scene.says(1).unreachable_gateways = gateways(&[2]);
    scene.says(2).unreachable_gateways = gateways(&[1]);
    scene.pass(UNREACHABLE_GATEWAY_MS);
    assert_eq!(scene.proposed, []);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed, [Reason::Unreachable(GatewayId(2))]);
    let mut wait_ms = FIRST_BACKOFF_MS;
    for gateway in [4, 5] {
        scene.pass(2_500);
        // It comes back as another incarnation, and everything is decided at once.
        let node = NodeId(2);
        let former = *scene.cell().undecided.keys().next().expect("somebody left");
        scene.apply(register(CELL, node));
        *scene.says(2) = Heartbeat { gateway: Some(GatewayId(gateway)), ..heartbeat(2, ViewNumber(0)) };
        for number in [1, 3] {
            *scene.says(number) =
                Heartbeat { decided: [former].into(), recovered: true, ..heartbeat(number as u16, ViewNumber(0)) };
        }
        scene.pass(wait_ms - 2_500 - 2 * STEP_MS);
        assert!(!scene.cell().is_in_view(GatewayId(gateway)));
        scene.pass(3 * STEP_MS);
        assert!(scene.cell().is_in_view(GatewayId(gateway)), "{:?}", scene.proposed);
        scene.says(1).unreachable_gateways = gateways(&[gateway]);
        scene.pass(UNREACHABLE_GATEWAY_MS + STEP_MS);
        wait_ms *= 2;
    }
}

#[test]
fn the_one_that_most_can_not_reach_leaves() {
    let mut scene = Scene::of_members();
    scene.says(1).unreachable_gateways = gateways(&[2, 3]);
    scene.says(2).unreachable_gateways = gateways(&[1]);
    scene.says(3).unreachable_gateways = gateways(&[1]);
    scene.pass(UNREACHABLE_GATEWAY_MS + STEP_MS);
    assert_eq!(scene.proposed, [Reason::Unreachable(GatewayId(1))]);
}

#[test]
fn a_report_that_does_not_last_counts_for_nothing() {
    let mut scene = Scene::of_members();
    for _ in 0..10 {
        scene.says(1).unreachable_gateways = gateways(&[2]);
        scene.pass(UNREACHABLE_GATEWAY_MS - STEP_MS);
        scene.says(1).unreachable_gateways.clear();
        scene.pass(STEP_MS);
    }
    assert_eq!(scene.proposed, []);
}

#[test]
fn devices_leave_when_they_fail_or_can_not_be_reached() {
    let mut scene = Scene::of_members_and_targets(1);
    scene.pass(1_000);
    scene.says(3).failed_devices = devices(&[2]);
    scene.pass(STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 3]));
    scene.says(3).failed_devices.clear();
    scene.pass(FIRST_BACKOFF_MS - 2 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 3]));
    scene.pass(3 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 2, 3]));
    // One alone is believed later, and only where three hosts are left.
    scene.says(1).unreachable_devices = devices(&[2]);
    scene.pass(UNREACHABLE_DEVICE_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 2, 3]));
    scene.pass(STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 3]));
    scene.says(1).unreachable_devices.clear();
    scene.pass(2 * FIRST_BACKOFF_MS - 2 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 3]));
    scene.pass(3 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 2, 3]));
    // Two of three at once, however many are left.
    scene.says(1).unreachable_devices = devices(&[1, 2]);
    scene.says(2).unreachable_devices = devices(&[1, 2]);
    scene.pass(STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 3]));
    assert_eq!(scene.cell().view_members().len(), 3);
}

/// A disk that is under strain stands still for a moment, again and again: each time it is in the table its next halt costs all writes some seconds.
#[test]
fn a_device_that_hangs_again_and_again_is_left_out_for_longer_each_time() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.proposed.clear();
    for _ in 0..300_000 / 8_000 {
        scene.says(3).failed_devices = devices(&[2]);
        scene.pass(2_000);
        scene.says(3).failed_devices.clear();
        scene.pass(6_000);
    }
    let views = scene.proposed.iter().filter(|reason| matches!(reason, Reason::Devices(_))).count();
    assert!((4..=12).contains(&views), "{views} views: {:?}", scene.proposed);
}

/// The third device hangs again and again; it is well now, and waits.
fn third_waits() -> Scene {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    for _ in 0..10 {
        scene.says(3).failed_devices = devices(&[2]);
        scene.pass(2_000);
        scene.says(3).failed_devices.clear();
        scene.pass(6_000);
    }
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene
}

/// Everything would be acknowledged with a copy on one host. But a disk that hangs under load answers when it is left alone.
#[test]
fn a_device_that_waits_comes_back_sooner_where_one_host_would_be_left() {
    let mut scene = third_waits();
    scene.says(1).failed_devices = devices(&[0]);
    scene.pass(2 * STEP_MS);
    assert_eq!(scene.table(), devices(&[1, 2]));
    for _ in 0..3 {
        scene.says(3).failed_devices = devices(&[2]);
        scene.pass(2 * STEP_MS);
        assert_eq!(scene.table(), devices(&[1]));
        scene.says(3).failed_devices.clear();
        scene.pass(FEW_HOSTS_BACKOFF_MS - 5 * STEP_MS);
        assert_eq!(scene.table(), devices(&[1]));
        scene.pass(6 * STEP_MS);
        assert_eq!(scene.table(), devices(&[1, 2]));
    }
}

/// Nothing would be acknowledged.
#[test]
fn a_device_that_waits_comes_back_where_none_would_be_left() {
    let mut scene = third_waits();
    scene.says(1).failed_devices = devices(&[0]);
    scene.pass(2 * STEP_MS);
    scene.says(3).failed_devices = devices(&[2]);
    scene.pass(2 * STEP_MS);
    scene.says(3).failed_devices.clear();
    scene.pass(2 * STEP_MS);
    assert_eq!(scene.table(), devices(&[1]), "it waits");
    scene.says(2).failed_devices = devices(&[1]);
    scene.pass(3 * STEP_MS);
    assert_eq!(scene.table(), devices(&[2]));
}

/// The device of the node that stops counted as one that stays: until its silence was noticed everything was acknowledged with a copy on one host.
#[test]
fn a_device_that_waits_comes_back_sooner_where_a_node_stops() {
    for is_stopping in [false, true] {
        let mut scene = third_waits();
        // Once more, for longer than that.
        while scene.table().len() < 3 {
            scene.pass(STEP_MS);
        }
        scene.says(3).failed_devices = devices(&[2]);
        scene.pass(2 * STEP_MS);
        scene.says(3).failed_devices.clear();
        scene.says(2).leaves = is_stopping;
        scene.pass(FEW_HOSTS_BACKOFF_MS + STEP_MS);
        let written_to = if is_stopping { devices(&[0, 2]) } else { devices(&[0, 1]) };
        assert_eq!(scene.table(), written_to);
    }
}

/// Its heartbeat comes first, and the view that it asks for is refused, for it keeps the gateway: nobody waits for that one to be proposed again.
#[test]
fn a_node_that_stops_takes_its_gateway_and_its_devices_along() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says(3).leaves = true;
    scene.commits = false;
    scene.pass(STEP_MS);
    assert!(matches!(scene.proposed.last(), Some(Reason::Devices(_))), "{:?}", scene.proposed);
    scene.commits = true;
    scene.apply(LeaveCell { cell: CELL, gateway: GatewayId(3) });
    scene.pass(STEP_MS);
    assert_eq!((scene.cell().view_members().len(), scene.table()), (2, devices(&[0, 1])), "{:?}", scene.proposed);
}

/// Who finds them gone would wait until their node is missed.
#[test]
fn the_devices_of_a_node_that_stops_leave_at_once_and_come_back_with_it() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says(3).leaves = true;
    scene.pass(STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1]));
    // Everything would be acknowledged with a copy on one host.
    scene.says(2).leaves = true;
    scene.pass(1_000);
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene.says(2).leaves = false;
    scene.pass(1_000);
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene.says(3).leaves = false;
    scene.pass(2 * STEP_MS);
    assert_eq!(scene.table(), devices(&[0, 1, 2]), "it does not wait");
}

/// A second device of the host that is left would make no copy on another one.
#[test]
fn a_device_that_waits_goes_on_waiting_where_it_adds_no_host() {
    let mut scene = third_waits();
    scene.apply(PlaceDevice { id: DeviceId(2), node: Some(NodeId(2)) });
    scene.says(3).devices.clear();
    let report = scene.says(2).devices[0];
    scene.says(2).devices.push(DeviceReport { device: DeviceId(2), ..report });
    scene.says(1).failed_devices = devices(&[0]);
    scene.pass(1_000);
    assert_eq!(scene.table(), devices(&[1]));
}

#[test]
fn a_device_comes_back_with_all_fences() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says(3).failed_devices = devices(&[2]);
    scene.pass(FIRST_BACKOFF_MS + 2 * STEP_MS);
    scene.says[2] = None;
    let late = |view| Input::Heartbeat(Heartbeat { fences: ViewNumber(view), ..heartbeat(3, ViewNumber(4)) });
    scene.hand_in(late(3));
    assert_eq!(scene.table(), devices(&[0, 1]));
    scene.hand_in(late(4));
    assert_eq!(scene.table(), devices(&[0, 1, 2]));
}

#[test]
fn the_last_device_stays() {
    let mut scene = Scene::of_members();
    for number in 1..4 {
        scene.says(number).failed_devices = devices(&[number as u32 - 1]);
    }
    scene.pass(10_000);
    assert_eq!(scene.table().len(), 1, "{:?}", scene.proposed);
}

#[test]
fn recovery_is_finished_when_the_leader_is_done_and_every_member_knows() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says[0] = None;
    scene.apply(LeaveCell { cell: CELL, gateway: GatewayId(1) });
    let is_undecided = |scene: &Scene| scene.cell().undecided.contains_key(&GatewayId(1));
    scene.says(2).decided = gateways(&[1]);
    scene.says(3).decided = gateways(&[1]);
    scene.says(3).recovered = true;
    scene.pass(1_000);
    assert!(is_undecided(&scene), "gateway 2 leads");
    scene.says(3).decided.clear();
    scene.pass(STEP_MS);
    scene.says(2).recovered = true;
    scene.pass(1_000);
    assert!(is_undecided(&scene), "gateway 3 does not know");
    // What is said of a former view says nothing of this one.
    let stale = Heartbeat { decided: gateways(&[1]), ..heartbeat(3, ViewNumber(3)) };
    scene.hand_in(Input::Heartbeat(stale));
    assert!(is_undecided(&scene));
    scene.says(3).decided = gateways(&[1]);
    scene.pass(STEP_MS);
    assert!(!is_undecided(&scene));
    assert_eq!(scene.proposed.last(), Some(&Reason::Recovered(gateways(&[1]))));
}

#[test]
fn a_cell_is_founded_by_the_least_learner_and_the_others_join_one_by_one() {
    let mut scene = Scene::of_learners();
    scene.start();
    scene.says(1).founding_done = false;
    scene.pass(1_000);
    assert!(scene.cell().is_founding());
    assert_eq!((scene.cell().view_members(), scene.table()), (&[GatewayId(1)][..], devices(&[0, 1, 2])));
    scene.says(1).founding_done = true;
    scene.pass(2_000);
    let joins = |gateway| Reason::Joins(GatewayId(gateway));
    let expected = [Reason::NobodyLives(GatewayId(1)), Reason::Founded(GatewayId(1)), joins(2), joins(3)];
    assert_eq!(scene.proposed, expected);
}

#[test]
fn a_founding_waits_for_devices_and_not_for_ever() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    for gateway in [1, 2, 3] {
        scene.says[usize::from(gateway) - 1] = None;
        scene.commits = gateway != 3;
        scene.apply(LeaveCell { cell: CELL, gateway: GatewayId(gateway) });
        scene.pass(STEP_MS);
    }
    scene.commits = true;
    scene.proposed.clear();
    scene.pass(5_000);
    assert_eq!(scene.proposed, [], "nobody is there to found it");
    scene.apply(register(CELL, NodeId(2)));
    scene.says[1] = Some(Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(2, ViewNumber(0)) });
    scene.pass(FOUNDING_WAIT_MS);
    assert_eq!(scene.proposed, []);
    scene.pass(2 * STEP_MS);
    assert_eq!(scene.cell().view_members(), [GatewayId(4)]);
    assert_eq!(scene.table(), devices(&[1]));
}

#[test]
fn silent_members_are_removed_for_good_before_a_founding() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.says = vec![None, None, None];
    scene.pass(10_000);
    assert_eq!(scene.proposed, [], "they may come back, and go on as they were");
    scene.apply(register(CELL, NodeId(1)));
    scene.says[0] = Some(Heartbeat { gateway: Some(GatewayId(4)), ..heartbeat(1, ViewNumber(0)) });
    scene.pass(FOUNDING_WAIT_MS + 2 * STEP_MS);
    let founds = || Reason::NobodyLives(GatewayId(4));
    assert_eq!(scene.proposed[..2], [founds(), founds()], "first the removal, then the founding");
    assert_eq!(scene.cell().view_members(), [GatewayId(4)]);
}

#[test]
fn a_proposal_without_effect_is_made_again_and_no_other_beside_it() {
    let mut scene = Scene::of_members();
    scene.pass(1_000);
    scene.commits = false;
    scene.says[2] = None;
    scene.says(2).failed_devices = devices(&[1]);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed, [Reason::Devices(devices(&[0, 2]))]);
    scene.pass(PROPOSAL_RETRY_MS - STEP_MS);
    assert_eq!(scene.proposed.len(), 1);
    scene.pass(STEP_MS);
    assert_eq!(scene.proposed[1..], [Reason::Silent(gateways(&[3]))]);
    let all = gateways(&[1, 2, 3]);
    let proposal = Proposal::BeginRemoval(BeginRemoval { cell: CELL, view: ViewNumber(3), gateways: all });
    assert!(!super::super::rules::has_effect(&proposal, scene.cell()));
}
