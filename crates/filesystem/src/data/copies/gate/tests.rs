use super::*;

fn pass(term: u64, session: u64) -> Pass {
    Pass { term, session }
}

#[test]
fn nothing_is_admitted_before_an_enter() {
    let mut gate = Gate::default();
    assert_eq!(gate.admit(pass(1, 1)), Err(NotAdmitted::NotEntered));
    gate.enter(pass(1, 1), 1).unwrap();
    gate.admit(pass(1, 1)).unwrap();
    assert_eq!(gate.admit(pass(1, 2)), Err(NotAdmitted::NotEntered));
}

#[test]
fn a_newer_session_ends_the_older_one_and_waits_for_it() {
    let mut gate = Gate::default();
    gate.enter(pass(1, 1), 1).unwrap();
    gate.admit(pass(1, 1)).unwrap();
    gate.admit(pass(1, 1)).unwrap();
    gate.enter(pass(1, 2), 1).unwrap();
    assert_eq!(gate.admit(pass(1, 1)), Err(NotAdmitted::Newer));
    assert_eq!(gate.enter(pass(1, 1), 1), Err(NotAdmitted::Newer));
    gate.admit(pass(1, 2)).unwrap();
    gate.leave(pass(1, 1));
    assert!(!gate.is_drained(pass(1, 2)));
    gate.leave(pass(1, 1));
    assert!(gate.is_drained(pass(1, 2)));
    assert!(!gate.is_drained(pass(2, 1)));
}

#[test]
fn a_term_must_be_the_one_that_the_log_knows() {
    let mut gate = Gate::default();
    assert_eq!(gate.enter(pass(3, 1), 4), Err(NotAdmitted::Newer));
    assert_eq!(gate.enter(pass(5, 1), 4), Err(NotAdmitted::NotEntered));
    gate.enter(pass(4, 1), 4).unwrap();
}
