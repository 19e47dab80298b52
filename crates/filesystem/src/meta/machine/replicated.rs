//! The machine as consensus replicates it.

use consensus::{Keeping, LogIndex, MachineError, StateMachine};

use super::super::command::{Command, Envelope};
use super::super::reply::Reply;
use super::super::transaction::Part;
use super::Machine;

impl StateMachine for Machine {
    type Command = Envelope;
    type Reply = Reply;

    fn encode(command: &Envelope) -> Vec<u8> {
        postcard::to_stdvec(command).expect("encoding into memory cannot fail")
    }

    fn decode(bytes: &[u8]) -> Result<Envelope, MachineError> {
        postcard::from_bytes(bytes).map_err(|error| MachineError(format!("a command of a tree: {error}")))
    }

    fn is_growth(command: &Envelope) -> bool {
        is_growth(&command.command)
    }

    fn apply(&mut self, _: LogIndex, command: Envelope) -> Result<Reply, MachineError> {
        Ok(self.carry_out(&command))
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Rows(self)
    }
}

fn is_growth(command: &Command) -> bool {
    match command {
        Command::Make { .. }
        | Command::MakeUnnamed { .. }
        | Command::Link { .. }
        | Command::SetXattr { .. }
        | Command::Commit { .. } => true,
        Command::Prepare { part, .. } => matches!(part, Part::NewDirectory { .. } | Part::PutName { .. }),
        Command::Decide { command, .. } => is_growth(command),
        _ => false,
    }
}
