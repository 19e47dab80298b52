//! How busy a node is.

use env::MachineUse;

/// A share in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(pub u16);

/// A node whose network, memory or processor is used more than this gets no new chunks (paper, section 4.1: "about to reach a high load").
pub const HIGH_LOAD: Permille = Permille(900);

/// What a node last told of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Blocks of its disks.
    pub blocks: u32,
    /// Blocks that nobody has.
    pub free_blocks: u32,
    pub network: Permille,
    pub memory: Permille,
    pub cpu: Permille,
}

impl Load {
    /// An idle node with this many blocks, all free.
    pub fn empty(blocks: u32) -> Load {
        Load { blocks, free_blocks: blocks, ..Load::default() }
    }

    /// The same on a machine that is used so.
    pub fn on(self, machine: MachineUse) -> Load {
        let MachineUse { cpu, memory, network } = machine;
        Load { network: Permille(network), memory: Permille(memory), cpu: Permille(cpu), ..self }
    }

    /// As busy as a node may be that gets new chunks.
    pub fn relieved(self) -> Load {
        let limit = |share: Permille| share.min(HIGH_LOAD);
        Load { network: limit(self.network), memory: limit(self.memory), cpu: limit(self.cpu), ..self }
    }

    pub fn is_full(&self) -> bool {
        self.free_blocks == 0
    }

    pub fn is_busy(&self) -> bool {
        self.network.max(self.memory).max(self.cpu) > HIGH_LOAD
    }

    /// The share of the resource that is used most: that one decides how much more a node can do. A sum would call a node with a full
    /// network and idle processors half loaded. Memory is not among them: chunks hardly need any, and most of it is used by whoever runs there
    /// anyhow, so that space would never decide.
    pub fn utilisation(&self) -> Permille {
        let used = u64::from(self.blocks - self.free_blocks.min(self.blocks));
        let disk = (used * 1000).checked_div(u64::from(self.blocks)).map_or(1000, |share| share as u16);
        Permille(disk).max(self.network).max(self.cpu)
    }
}
