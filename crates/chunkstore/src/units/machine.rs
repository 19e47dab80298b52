//! A maintenance unit under consensus.

use consensus::{FrozenState, Keeping, LogIndex, MachineError, StateMachine, Whole};
use format::chunk_command::ChunkCommand;
use format::chunk_id::ShardId;
use parking_lot::Mutex;

use crate::limits::MAX_UNTAKEN;
use crate::maintenance::{Answer, Applied, MaintenanceUnit, Refusal};

/// What a group replicates, and what its leader has not looked at yet.
pub struct UnitMachine {
    unit: MaintenanceUnit,
    /// What commands did, in their order, while this member leads. Not replicated: a new leader derives all from the state.
    done: Mutex<Done>,
}

/// What a leader takes from the machine.
#[derive(Debug, Default)]
enum Done {
    /// Nobody leads here.
    #[default]
    Unheard,
    Since(Vec<Applied>),
    /// The leader is too slow: it derives all anew.
    TooMuch,
}

impl UnitMachine {
    pub fn new(shard: ShardId, capacity: u64) -> Self {
        UnitMachine { unit: MaintenanceUnit::new(shard, capacity), done: Mutex::default() }
    }

    pub fn unit(&self) -> &MaintenanceUnit {
        &self.unit
    }

    /// Begins to note what commands do, from the present state on.
    pub fn listen(&self) {
        *self.done.lock() = Done::Since(Vec::new());
    }

    pub fn stop_listening(&self) {
        *self.done.lock() = Done::Unheard;
    }

    /// What commands did since it was asked last; none if that is not known any more.
    pub fn take_done(&self) -> Option<Vec<Applied>> {
        match &mut *self.done.lock() {
            Done::Since(applied) => Some(std::mem::take(applied)),
            Done::Unheard | Done::TooMuch => None,
        }
    }
}

impl StateMachine for UnitMachine {
    type Command = ChunkCommand;
    type Reply = Result<Answer, Refusal>;

    fn encode(command: &ChunkCommand) -> Vec<u8> {
        command.encode()
    }

    fn decode(bytes: &[u8]) -> Result<ChunkCommand, MachineError> {
        ChunkCommand::decode(bytes).map_err(|error| MachineError(error.to_string()))
    }

    /// A put can be asked for later. All else ends what was begun, makes a state shorter, or saves copies; chunks of rows make it shorter as well.
    fn is_growth(command: &ChunkCommand) -> bool {
        matches!(command, ChunkCommand::Register(_))
    }

    fn apply(&mut self, _: LogIndex, command: ChunkCommand) -> Result<Self::Reply, MachineError> {
        let applied = self.unit.apply(&command);
        let answer = applied.answer;
        let done = self.done.get_mut();
        if let Done::Since(taken) = done {
            match taken.len() < MAX_UNTAKEN {
                true => taken.push(applied),
                false => *done = Done::TooMuch,
            }
        }
        Ok(answer)
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Whole(self)
    }
}

impl Whole for UnitMachine {
    fn snapshot(&self) -> FrozenState {
        let unit = self.unit.clone();
        Box::new(move || unit.to_image())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        self.unit = MaintenanceUnit::from_image(snapshot).map_err(|error| MachineError(error.to_string()))?;
        let done = self.done.get_mut();
        if !matches!(done, Done::Unheard) {
            *done = Done::TooMuch;
        }
        Ok(())
    }
}
