//! The state machine of the tests: registers by number, as `model::register` specifies them.

use std::collections::{BTreeMap, BTreeSet};

use model::register::{Call, Outcome};

use crate::id::LogIndex;
use crate::machine::{FrozenState, Keeping, MachineError, RowChange, Rows, StateMachine, Whole};

/// Registers, the last command's index, and some ballast that makes snapshots long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) registers: BTreeMap<u64, u64>,
    /// Hash of all commands in their order: equal on members that applied the same.
    pub(super) digest: u64,
    pub(super) applied: u64,
    pub(super) ballast: Vec<u8>,
    /// Of one that is kept as rows: what has changed since the last snapshot; none: it is kept as a whole.
    pub(super) changed: Changed,
}

/// Not a part of the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Changed(Option<BTreeSet<Vec<u8>>>);

impl PartialEq for Changed {
    fn eq(&self, _: &Changed) -> bool {
        true
    }
}

impl Eq for Changed {}

/// Bytes of ballast in a row.
const BALLAST_ROW_BYTES: usize = 100_000;
/// Rows of a store of rows begin with what they are.
const TOTALS: u8 = 0;
const REGISTER: u8 = 1;
const BALLAST: u8 = 2;

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
    /// One that is kept as rows.
    pub(super) fn of_rows() -> Store {
        Store { changed: Changed(Some(BTreeSet::from([vec![TOTALS]]))), ..Store::default() }
    }

    fn note(&mut self, table: u8, number: u64) {
        if let Some(changed) = &mut self.changed.0 {
            changed.insert([&[table][..], &number.to_be_bytes()].concat());
        }
    }

    fn note_totals(&mut self) {
        if let Some(changed) = &mut self.changed.0 {
            changed.insert(vec![TOTALS]);
        }
    }

    /// The ballast from `from` on has changed.
    fn note_ballast(&mut self, from: usize, to: usize) {
        for row in from / BALLAST_ROW_BYTES..=to / BALLAST_ROW_BYTES {
            self.note(BALLAST, row as u64);
        }
    }

    /// A row as it is now.
    fn row(&self, key: &[u8]) -> Option<Vec<u8>> {
        let number = || u64::from_be_bytes(key[1..].try_into().unwrap());
        match key[0] {
            TOTALS => Some(postcard::to_allocvec(&(self.digest, self.applied)).unwrap()),
            REGISTER => self.registers.get(&number()).map(|value| value.to_be_bytes().to_vec()),
            _ => self.ballast.chunks(BALLAST_ROW_BYTES).nth(number() as usize).map(<[u8]>::to_vec),
        }
    }

    fn set(&mut self, register: u64, value: Option<u64>) {
        self.note(REGISTER, register);
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
        self.note_totals();
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
                let before = self.ballast.len();
                self.ballast.extend(bytes);
                self.note_ballast(before, self.ballast.len());
                Outcome::Written
            }
            Command::Noise(_) => Outcome::Written,
            Command::Cut(left) => {
                self.note_ballast(left as usize, self.ballast.len());
                self.ballast.truncate(left as usize);
                Outcome::Written
            }
        })
    }

    fn keeping(&mut self) -> Keeping<'_> {
        if self.changed.0.is_some() { Keeping::Rows(self) } else { Keeping::Whole(self) }
    }
}

impl Rows for Store {
    fn take_changes(&mut self) -> Vec<RowChange> {
        let changed = self.changed.0.replace(BTreeSet::new()).unwrap_or_default();
        changed.into_iter().map(|key| (self.row(&key), key)).map(|(value, key)| (key, value)).collect()
    }

    fn clear(&mut self) {
        *self = Store { changed: Changed(Some(BTreeSet::new())), ..Store::default() };
    }

    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        match key[0] {
            TOTALS => {
                (self.digest, self.applied) = postcard::from_bytes(value).map_err(|error| MachineError(error.to_string()))?
            }
            REGISTER => {
                let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
                self.registers.insert(number(&key[1..]), number(value));
            }
            _ => self.ballast.extend(value),
        }
        Ok(())
    }
}

impl Whole for Store {
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
        *self = Store { registers: registers.into_iter().collect(), digest, applied, ballast, changed: Changed::default() };
        Ok(())
    }
}
