//! Where nodes stand, as placers see it.

use std::collections::BTreeMap;

use manager::{NodeRecord, Snapshot};
use topology::Branch;

/// Numbers for what people call hosts, racks and zones: that of the first node there, so that nodes that come change none.
#[derive(Default)]
pub struct Branches {
    zones: BTreeMap<String, u32>,
    racks: BTreeMap<String, u32>,
    hosts: BTreeMap<String, u32>,
}

impl Branches {
    pub fn of(state: &Snapshot) -> Branches {
        let mut branches = Branches::default();
        for node in state.nodes() {
            let Branches { zones, racks, hosts } = &mut branches;
            for (numbers, name) in [(zones, &node.zone), (racks, &node.rack), (hosts, &node.host)] {
                numbers.entry(name.clone()).or_insert(node.id.0);
            }
        }
        branches
    }

    pub fn branch(&self, node: &NodeRecord) -> Branch {
        let number = |numbers: &BTreeMap<String, u32>, name: &String| numbers.get(name).copied().unwrap_or_default();
        let Branches { zones, racks, hosts } = self;
        Branch { zone: number(zones, &node.zone), pod: 0, rack: number(racks, &node.rack), host: number(hosts, &node.host) }
    }
}
