//! The state machine of the tests: registers by number, as `model::register` specifies them.

use std::collections::BTreeMap;

use model::register::{Call, Outcome};

use crate::id::LogIndex;
use crate::machine::{FrozenState, MachineError, StateMachine};

/// Registers, the last command's index, and some ballast that makes snapshots long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) registers: BTreeMap<u64, u64>,
    /// Hash of all commands in their order: equal on members that applied the same.
    pub(super) digest: u64,
    pub(super) applied: u64,
    pub(super) ballast: Vec<u8>,
}

/// A change of a register.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Command {
    Write {
        register: u64,
        value: Option<u64>,
    },
    Swap {
        register: u64,
        expected: Option<u64>,
        new: Option<u64>,
    },
    /// Appends so many bytes to the ballast.
    Ballast(Vec<u8>),
    /// Changes nothing, in so many bytes.
    Noise(Vec<u8>),
    /// Leaves so many bytes of the ballast.
    Cut(u64),
}

impl Command {
    pub(super) fn write(register: u64, value: u64) -> Self {
        Command::Write { register, value: Some(value) }
    }

    pub(super) fn of(register: u64, call: &Call<u64>) -> Option<Self> {
        match call {
            Call::Read => None,
            Call::Write(value) => Some(Command::Write { register, value: *value }),
            Call::Swap { expected, new } => Some(Command::Swap { register, expected: *expected, new: *new }),
        }
    }
}

impl Store {
    fn set(&mut self, register: u64, value: Option<u64>) {
        match value {
            Some(value) => drop(self.registers.insert(register, value)),
            None => drop(self.registers.remove(&register)),
        }
    }
}

impl StateMachine for Store {
    type Command = Command;
    type Reply = Outcome<u64>;

    fn encode(command: &Command) -> Vec<u8> {
        postcard::to_allocvec(command).unwrap()
    }

    fn decode(bytes: &[u8]) -> Result<Command, MachineError> {
        postcard::from_bytes(bytes).map_err(|error| MachineError(error.to_string()))
    }

    fn is_growth(command: &Command) -> bool {
        matches!(command, Command::Ballast(_))
    }

    fn apply(&mut self, index: LogIndex, command: Command) -> Result<Outcome<u64>, MachineError> {
        assert!(index.0 >= self.applied, "command {index} after {}", self.applied);
        self.applied = index.0 + 1;
        for byte in Store::encode(&command).iter().take(32) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(match command {
            Command::Write { register, value } => {
                self.set(register, value);
                Outcome::Written
            }
            Command::Swap { register, expected, new } => {
                let found = self.registers.get(&register).copied();
                if found != expected {
                    return Ok(Outcome::Differs { found });
                }
                self.set(register, new);
                Outcome::Swapped
            }
            Command::Ballast(bytes) => {
                self.ballast.extend(bytes);
                Outcome::Written
            }
            Command::Noise(_) => Outcome::Written,
            Command::Cut(left) => {
                self.ballast.truncate(left as usize);
                Outcome::Written
            }
        })
    }

    fn snapshot(&self) -> FrozenState {
        let frozen = self.clone();
        Box::new(move || {
            let registers: Vec<(u64, u64)> = frozen.registers.into_iter().collect();
            postcard::to_allocvec(&(registers, frozen.digest, frozen.applied, frozen.ballast)).unwrap()
        })
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        type Frozen = (Vec<(u64, u64)>, u64, u64, Vec<u8>);
        let frozen: Frozen = postcard::from_bytes(snapshot).map_err(|error| MachineError(error.to_string()))?;
        let (registers, digest, applied, ballast) = frozen;
        *self = Store { registers: registers.into_iter().collect(), digest, applied, ballast };
        Ok(())
    }
}
