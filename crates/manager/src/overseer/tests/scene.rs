//! Three members with a device each, that say what they are told to.

use super::super::{DeviceReport, Facts, Heartbeat, Input, Output, Overseer, Reason, Refused};
use crate::tests::nodes::{node, register};
use crate::{
    AddDevice, Command, CommandIndex, CreateCell, FinishFounding, FoundView, InstallView, PlaceDevice, Snapshot, apply,
};
use std::collections::BTreeSet;
use topology::{ClockReading, LeaseTerms};
use types::{CellId, DeviceId, DeviceUuid, GatewayId, Generation, NodeId, ViewNumber};

pub(super) const CELL: CellId = CellId(0);
pub(super) const STEP_MS: u64 = 100;

/// A cell, its overseer, and nodes that say what they are told to.
pub(super) struct Scene {
    pub(super) state: Snapshot,
    pub(super) overseer: Overseer,
    pub(super) now_ms: u64,
    /// What each node says. Silent nodes say none.
    pub(super) says: Vec<Option<Heartbeat>>,
    pub(super) proposed: Vec<Reason>,
    /// Whether proposals are carried out.
    pub(super) commits: bool,
}

pub(super) fn at(ms: u64) -> ClockReading {
    ClockReading { nanos: ms * 1_000_000 }
}

pub(super) fn gateways(numbers: &[u16]) -> BTreeSet<GatewayId> {
    numbers.iter().copied().map(GatewayId).collect()
}

pub(super) fn devices(numbers: &[u32]) -> BTreeSet<DeviceId> {
    numbers.iter().copied().map(DeviceId).collect()
}

pub(super) fn heartbeat(number: u16, view: ViewNumber) -> Heartbeat {
    let device = DeviceId(u32::from(number) - 1);
    Heartbeat {
        cell: CELL,
        node: NodeId(number.into()),
        gateway: Some(GatewayId(number)),
        view,
        wants_lease: true,
        is_loadable: true,
        founding_done: true,
        decided: BTreeSet::new(),
        recovered: false,
        unreachable_gateways: BTreeSet::new(),
        unreachable_devices: BTreeSet::new(),
        failed_devices: BTreeSet::new(),
        devices: vec![DeviceReport { device, total_bytes: 2, free_bytes: 1 }],
        fences: view,
        applied: u64::MAX,
        leaves: false,
        wall_clock_ms: 0,
    }
}

impl Scene {
    /// Gateways 1 to 3 on nodes 1 to 3 are registered, and nothing is founded.
    pub(super) fn of_learners() -> Scene {
        let mut scene = Scene {
            state: Snapshot::default(),
            overseer: Overseer::new(CELL, LeaseTerms::default()),
            now_ms: 1_000,
            says: (1..4).map(|number| Some(heartbeat(number, ViewNumber(0)))).collect(),
            proposed: Vec::new(),
            commits: true,
        };
        scene.apply(CreateCell { cell: CELL, generation: Generation(0) });
        for number in 1..4u8 {
            scene.add_node(number);
            scene.apply(register(CELL, NodeId(number.into())));
        }
        scene
    }

    /// View 5 of five members with a device each, and an overseer that has just begun.
    pub(super) fn of_five() -> Scene {
        let mut scene = Scene::of_members();
        for number in 4..6 {
            scene.add_node(number);
            scene.says.push(Some(heartbeat(number.into(), ViewNumber(0))));
            scene.apply(register(CELL, NodeId(number.into())));
            scene.pass(2 * STEP_MS);
        }
        scene.start();
        scene.pass(STEP_MS);
        assert_eq!((scene.cell().view_members().len(), scene.table().len()), (5, 5), "{:?}", scene.proposed);
        scene.proposed.clear();
        scene
    }

    /// Another node with a device, and no gateway.
    pub(super) fn add_target(&mut self, number: u8) {
        self.add_node(number);
        self.says.push(Some(Heartbeat { gateway: None, ..heartbeat(number.into(), ViewNumber(0)) }));
    }

    /// Another node, on a host of its own, with a device.
    fn add_node(&mut self, number: u8) {
        self.apply(node(number));
        self.apply(AddDevice { uuid: DeviceUuid([number; 16]), path: String::new(), capacity_bytes: 1 });
        self.apply(PlaceDevice { id: DeviceId(u32::from(number) - 1), node: Some(NodeId(number.into())) });
    }

    /// View 3 of all three, and an overseer that has just begun.
    pub(super) fn of_members() -> Scene {
        Scene::of_members_and_targets(0)
    }

    /// The same with so many more nodes that have a device each, and no gateway.
    pub(super) fn of_members_and_targets(count: u8) -> Scene {
        let mut scene = Scene::of_learners();
        (4..4 + count).for_each(|number| scene.add_target(number));
        let all = || (0..3 + u32::from(count)).map(DeviceId).collect::<BTreeSet<_>>();
        scene.apply(FoundView { cell: CELL, expected: ViewNumber(0), gateway: GatewayId(1), devices: all() });
        scene.apply(FinishFounding { cell: CELL, view: ViewNumber(1), gateway: GatewayId(1) });
        let install = |expected, members: &[u16]| {
            let (expected, members) = (ViewNumber(expected), gateways(members));
            InstallView { cell: CELL, expected, members, devices: all() }
        };
        scene.apply(install(1, &[1, 2]));
        scene.apply(install(2, &[1, 2, 3]));
        scene.start();
        scene
    }

    pub(super) fn apply(&mut self, command: impl Into<Command>) {
        let (index, command) = (CommandIndex(self.state.applied().0 + 1), command.into());
        assert!(apply(index, &command, &mut self.state), "{command:?}");
        self.hand_in(Input::Changed(Facts::of(&self.state, CELL).unwrap()));
    }

    pub(super) fn start(&mut self) {
        self.hand_in(Input::Started(Facts::of(&self.state, CELL).unwrap()));
    }

    pub(super) fn hand_in(&mut self, input: Input) {
        for output in self.overseer.step(input, at(self.now_ms)) {
            if let Output::Propose { proposal, reason } = output {
                self.proposed.push(reason);
                if self.commits {
                    self.apply(proposal);
                }
            }
        }
    }

    /// Time passes, and every node that speaks says under the newest view what it has to say.
    pub(super) fn pass(&mut self, ms: u64) {
        for _ in 0..ms / STEP_MS {
            self.now_ms += STEP_MS;
            for number in 0..self.says.len() {
                if let Some(mut heartbeat) = self.says[number].clone() {
                    let view = self.cell().view_number();
                    (heartbeat.view, heartbeat.fences) = (view, view);
                    self.hand_in(Input::Heartbeat(heartbeat));
                }
            }
            self.hand_in(Input::Tick);
        }
    }

    pub(super) fn says(&mut self, number: usize) -> &mut Heartbeat {
        self.says[number - 1].as_mut().unwrap()
    }

    pub(super) fn cell(&self) -> &crate::CellRecord {
        self.state.cell(CELL).unwrap()
    }

    pub(super) fn table(&self) -> BTreeSet<DeviceId> {
        self.cell().installed.as_ref().unwrap().table.devices().iter().copied().collect()
    }

    pub(super) fn lease(&mut self, heartbeat: Heartbeat) -> Result<GatewayId, Refused> {
        let outputs = self.overseer.step(Input::Heartbeat(heartbeat), at(self.now_ms));
        let answer = outputs.into_iter().find_map(|output| match output {
            Output::Answer { answer, .. } => Some(answer.lease),
            Output::Propose { .. } => None,
        });
        answer.expect("a heartbeat is answered")
    }
}
