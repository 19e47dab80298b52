//! Heartbeats as bytes.

use proptest::prelude::any;
use proptest::{prop_assert, proptest};
use types::{CellId, DeviceId, GatewayId, NodeId, ViewNumber};

use super::super::{Answer, DeviceReport, Heartbeat, MAX_HEARTBEAT_BYTES, Refused, WireError};
use crate::limits::MAX_DEVICES;

fn heartbeat() -> Heartbeat {
    Heartbeat {
        cell: CellId(2),
        node: NodeId(300),
        gateway: Some(GatewayId(7)),
        view: ViewNumber(9),
        wants_lease: true,
        is_loadable: false,
        founding_done: true,
        decided: [GatewayId(3), GatewayId(4)].into(),
        recovered: true,
        unreachable_gateways: [GatewayId(5)].into(),
        unreachable_devices: [DeviceId(6)].into(),
        failed_devices: [DeviceId(8)].into(),
        devices: vec![DeviceReport { device: DeviceId(8), total_bytes: 300, free_bytes: 2 }],
        fences: ViewNumber(1),
        applied: 11,
        leaves: true,
        wall_clock_ms: 5,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_messages() {
    let bytes = heartbeat().encode();
    assert_eq!(hex(&bytes), "0302ac02010709010001020304010105010601080108ac0202010b0105");
    assert_eq!(Heartbeat::decode(&bytes), Ok(heartbeat()));
    let granted = Answer { view: ViewNumber(9), lease: Ok(GatewayId(7)) };
    let refused = Answer { view: ViewNumber(9), lease: Err(Refused::Removing) };
    assert_eq!((hex(&granted.encode()).as_str(), hex(&refused.encode()).as_str()), ("03090007", "03090103"));
    assert_eq!((Answer::decode(&granted.encode()), Answer::decode(&refused.encode())), (Ok(granted), Ok(refused)));
}

#[test]
fn the_document_shows_the_heartbeat() {
    let document = include_str!("../../../../../docs/format.md");
    let row = document.lines().find(|line| line.starts_with("| heartbeat |")).expect("a row");
    let shown: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    let text = format!("{:#?}", heartbeat());
    let fields = text.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
    let fields: Vec<&str> = fields.filter_map(|line| line.trim().split_once(": ")).map(|(name, _)| name).collect();
    assert_eq!(shown, fields);
}

#[test]
fn what_can_not_be_is_refused() {
    assert_eq!(Heartbeat::decode(&[]), Err(WireError::Version { found: None }));
    assert_eq!(Heartbeat::decode(&[1, 0]), Err(WireError::Version { found: Some(1) }));
    assert!(matches!(Heartbeat::decode(&[3, 0]), Err(WireError::Body(_))));
    let longer = [heartbeat().encode(), vec![0]].concat();
    assert_eq!(Heartbeat::decode(&longer), Err(WireError::Trailing { left: 1 }));
    let found = MAX_HEARTBEAT_BYTES + 1;
    assert_eq!(Answer::decode(&vec![1; found]), Err(WireError::Length { found }));
    let mut wrong = heartbeat();
    wrong.devices[0].free_bytes = 301;
    let usage = WireError::Usage { device: DeviceId(8), total_bytes: 300, free_bytes: 301 };
    assert_eq!(Heartbeat::decode(&wrong.encode()), Err(usage));
    let mut many = heartbeat();
    many.failed_devices = (0..=MAX_DEVICES as u32).map(DeviceId).collect();
    assert_eq!(Heartbeat::decode(&many.encode()), Err(WireError::Devices { found: MAX_DEVICES + 1 }));
}

#[test]
fn the_longest_heartbeat_fits() {
    let all = (0..MAX_DEVICES as u32).map(|device| DeviceId(u32::MAX - device));
    let report = |device| DeviceReport { device, total_bytes: u64::MAX, free_bytes: u64::MAX };
    let longest = Heartbeat {
        unreachable_devices: all.clone().collect(),
        failed_devices: all.clone().collect(),
        devices: all.map(report).collect(),
        ..heartbeat()
    };
    let bytes = longest.encode();
    assert!(bytes.len() <= MAX_HEARTBEAT_BYTES, "{}", bytes.len());
    assert_eq!(Heartbeat::decode(&bytes), Ok(longest));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let bytes = [&[1][..], &bytes].concat();
        if let Ok(heartbeat) = Heartbeat::decode(&bytes) {
            prop_assert!(heartbeat.encode().len() <= bytes.len());
        }
        let _answer = Answer::decode(&bytes);
    }
}
