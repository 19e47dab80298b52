use super::{clock, unfinished, what_is_left};
use admin::{CellDevice, CellNode, CellStatus};

fn node(name: &str) -> CellNode {
    CellNode {
        name: name.to_owned(),
        address: format!("{name}:9002"),
        s3_address: format!("{name}:9000"),
        admin_address: format!("{name}:9001"),
        version: "1".to_owned(),
        serves: true,
        waits: false,
        is_silent: false,
        votes: true,
        clock_off_ms: None,
    }
}

fn device(number: u32) -> CellDevice {
    let (node, state) = (Some("one".to_owned()), "active".to_owned());
    CellDevice { device: number, node, is_written: true, state, capacity_bytes: 1 }
}

fn whole() -> CellStatus {
    CellStatus {
        view: 7,
        gateways: 2,
        leader: Some("one".to_owned()),
        manager_leader: Some("one".to_owned()),
        copies: 2,
        undecided: Vec::new(),
        alone: Vec::new(),
        repair_left: Some(0),
        unregistered: Vec::new(),
        nodes: vec![node("one"), node("two")],
        devices: vec![device(0), device(1)],
    }
}

#[test]
fn nothing_is_left_of_a_whole_cell_and_each_thing_is_named_that_is() {
    assert_eq!(what_is_left(&whole()), [""; 0]);
    let away = CellDevice { is_written: false, ..device(1) };
    let left = [
        (CellStatus { nodes: vec![node("one"), CellNode { serves: false, ..node("two") }], ..whole() }, "two is away"),
        (CellStatus { manager_leader: None, ..whole() }, "nobody leads"),
        (CellStatus { undecided: vec![3], ..whole() }, "[3]"),
        (CellStatus { alone: vec![0], ..whole() }, "[0] alone"),
        (CellStatus { devices: vec![device(0), away.clone()], ..whole() }, "device 1 of one"),
        (CellStatus { repair_left: Some(12), ..whole() }, "12 parts"),
        (CellStatus { repair_left: None, ..whole() }, "not known"),
    ];
    for (cell, expected) in left {
        let left = what_is_left(&cell);
        assert!(left.len() == 1 && left[0].contains(expected), "{expected}: {left:?}");
    }
    let going = CellDevice { state: "failed".to_owned(), ..away };
    assert_eq!(what_is_left(&CellStatus { devices: vec![device(0), going], ..whole() }), [""; 0]);
    let waits = CellNode { serves: false, waits: true, ..node("two") };
    assert_eq!(what_is_left(&CellStatus { nodes: vec![node("one"), waits], ..whole() }), [""; 0]);
}

#[test]
fn a_clock_that_is_off_is_told_which_way() {
    assert_eq!(clock(&node("one")), None);
    for (off_ms, expected) in [(75_900, "one is 75 seconds ahead of"), (-600_000, "one is 600 seconds behind")] {
        let said = clock(&CellNode { clock_off_ms: Some(off_ms), ..node("one") }).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_device_whose_removal_has_not_ended_comes_with_advice() {
    let said = unfinished(&CellDevice { is_written: false, state: "failed".to_owned(), ..device(3) });
    assert!(
        said.contains("device 3") && said.contains("when one does not serve it") && said.contains("forget 3 --yes"),
        "{said}"
    );
}
