//! `manager::Command::decode`: no bytes make it panic, what it accepts survives being written again, and the state machine
//! carries out whatever it was given: the state that comes of it survives an export.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manager::{Command, CommandIndex, Snapshot, apply};

fuzz_target!(|bodies: Vec<Vec<u8>>| {
    let mut state = Snapshot::default();
    for body in &bodies {
        let Some(command) = check(body) else { continue };
        let (before, index) = (state.clone(), CommandIndex(state.applied().0 + 1));
        let is_carried_out = apply(index, &command, &mut state);
        assert_eq!(state.applied(), index);
        if !is_carried_out {
            let mut again = before;
            assert!(!apply(index, &command, &mut again), "the same command on the same state was refused only once");
            assert_eq!(again, state);
        }
    }
    let copy = state.export();
    assert_eq!(Snapshot::from_export(&copy), Ok(state));
});

fn check(bytes: &[u8]) -> Option<Command> {
    let command = Command::decode(bytes).ok()?;
    assert_eq!(Command::decode(&command.encode()).as_ref(), Ok(&command));
    Some(command)
}
