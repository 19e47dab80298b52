use super::{CallId, History};
use crate::choice::{Choose, Seeded};
use crate::register::{Call, Outcome, Register};

type Key = History<Register<u32>>;

fn read(history: &mut Key, found: Option<u32>) {
    let call = history.call(Call::Read);
    history.answer(call, Outcome::Read(found));
}

fn write(history: &mut Key, value: Option<u32>) {
    let call = history.call(Call::Write(value));
    history.answer(call, Outcome::Written);
}

#[test]
fn a_sequence_is_explained_by_itself() {
    let mut history = Key::default();
    read(&mut history, None);
    write(&mut history, Some(1));
    read(&mut history, Some(1));
    write(&mut history, None);
    read(&mut history, None);
    assert_eq!(history.check(None).unwrap(), (0..5).map(CallId).collect::<Vec<_>>());
}

#[test]
fn a_stale_read_is_found() {
    let mut history = Key::default();
    write(&mut history, Some(1));
    write(&mut history, Some(2));
    read(&mut history, Some(1));
    let violation = history.check(None).unwrap_err();
    assert_eq!(violation.explained.len(), 2);
    assert!(violation.to_string().contains("Read(Some(1))"), "{violation}");
}

#[test]
fn reads_that_go_back_in_time_are_found() {
    let mut history = Key::default();
    let writing = history.call(Call::Write(Some(1)));
    read(&mut history, Some(1));
    read(&mut history, None);
    history.answer(writing, Outcome::Written);
    assert!(history.check(None).is_err());
}

#[test]
fn reads_beside_a_write_may_see_either() {
    for found in [None, Some(1)] {
        let mut history = Key::default();
        let writing = history.call(Call::Write(Some(1)));
        read(&mut history, found);
        history.answer(writing, Outcome::Written);
        history.check(None).unwrap();
    }
}

#[test]
fn a_write_without_an_answer_may_come_late_but_only_once() {
    let mut history = Key::default();
    history.call(Call::Write(Some(1)));
    write(&mut history, Some(2));
    read(&mut history, Some(2));
    read(&mut history, Some(1));
    history.check(None).unwrap();
    read(&mut history, Some(2));
    assert!(history.check(None).is_err());
}

#[test]
fn a_lost_write_comes_before_its_loss_or_never() {
    for found in [None, Some(1)] {
        let mut history = Key::default();
        let writing = history.call(Call::Write(Some(1)));
        history.lose(writing);
        read(&mut history, found);
        read(&mut history, found);
        history.check(None).unwrap();
        read(&mut history, if found.is_none() { Some(1) } else { None });
        assert!(history.check(None).is_err());
    }
    let mut history = Key::default();
    let writing = history.call(Call::Write(Some(1)));
    write(&mut history, Some(2));
    history.lose(writing);
    write(&mut history, Some(3));
    read(&mut history, Some(1));
    assert!(history.check(None).is_err());
}

#[test]
fn a_refusal_that_does_not_say_what_it_found_found_something_else() {
    for (expected, new) in [(None, true), (Some(1), false), (Some(2), true)] {
        let mut history = Key::default();
        write(&mut history, Some(1));
        let swap = history.call(Call::Swap { expected, new: Some(3) });
        history.answer(swap, Outcome::Occupied);
        assert_eq!(history.check(None).is_ok(), new, "{history}");
    }
    let mut history = Key::default();
    let swap = history.call(Call::Swap { expected: Some(1), new: Some(3) });
    history.answer(swap, Outcome::Occupied);
    assert!(history.check(None).is_err(), "nothing was there");
}

#[test]
fn a_withdrawn_write_never_happened() {
    let mut history = Key::default();
    let writing = history.call(Call::Write(Some(1)));
    history.withdraw(writing);
    read(&mut history, Some(1));
    assert!(history.check(None).is_err());
}

#[test]
fn of_two_swaps_from_one_value_only_one_succeeds() {
    let mut history = Key::default();
    let one = history.call(Call::Swap { expected: None, new: Some(1) });
    let two = history.call(Call::Swap { expected: None, new: Some(2) });
    history.answer(one, Outcome::Swapped);
    let mut both = history.clone();
    both.answer(two, Outcome::Swapped);
    assert!(both.check(None).is_err());
    history.answer(two, Outcome::Differs { found: Some(1) });
    history.check(None).unwrap();
}

/// Histories made by a real atomic register with overlapping calls are accepted, and stop being so when one read is falsified.
#[test]
fn agrees_with_an_atomic_register() {
    let mut falsified = 0;
    for seed in 0..500 {
        let mut choices = Seeded::new(seed);
        let (history, lied) = atomic_run(&mut choices, false);
        assert!(!lied);
        history.check(None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        let (history, lied) = atomic_run(&mut Seeded::new(seed), true);
        if lied {
            falsified += 1;
            assert!(history.check(None).is_err(), "seed {seed}: a read of a value never written was explained");
        }
    }
    assert!(falsified > 300, "only {falsified} histories had a read to falsify");
}

/// A client's call, and its outcome once it has taken effect.
type InFlight = (CallId, Call<u32>, Option<Outcome<u32>>);

/// Calls of four clients; each takes effect at a random moment between call and answer.
fn atomic_run(choices: &mut Seeded, lie: bool) -> (Key, bool) {
    let mut history = Key::default();
    let mut register: Option<u32> = None;
    let mut clients: [Option<InFlight>; 4] = Default::default();
    let mut lied = false;
    for step in 0..60u32 {
        match &mut clients[choices.below(4)] {
            slot @ None => {
                let call = match choices.below(3) {
                    0 => Call::Read,
                    1 => Call::Write(choices.percent(80).then_some(step)),
                    _ => Call::Swap { expected: register, new: Some(step) },
                };
                *slot = Some((history.call(call.clone()), call, None));
            }
            Some((_, call, outcome @ None)) => *outcome = Some(apply(&mut register, call)),
            slot => {
                let (id, _, outcome) = slot.take().unwrap();
                let mut outcome = outcome.unwrap();
                if lie && !lied && matches!(outcome, Outcome::Read(_)) {
                    lied = true;
                    outcome = Outcome::Read(Some(1_000_000));
                }
                history.answer(id, outcome);
            }
        }
    }
    (history, lied)
}

fn apply(register: &mut Option<u32>, call: &Call<u32>) -> Outcome<u32> {
    match call {
        Call::Read => Outcome::Read(*register),
        Call::Write(new) => {
            *register = *new;
            Outcome::Written
        }
        Call::Swap { expected, new } if expected == register => {
            *register = *new;
            Outcome::Swapped
        }
        Call::Swap { .. } => Outcome::Differs { found: *register },
    }
}

/// Whether some order of the calls explains the history: tries them all.
fn explained_by_trying(history: &Key, state: Option<u32>, placed: &mut Vec<usize>) -> bool {
    let open = |placed: &[usize]| (0..history.calls.len()).filter(|call| !placed.contains(call)).collect::<Vec<_>>();
    let left = open(placed);
    if left.iter().all(|call| history.calls[*call].answer.is_none()) {
        return true;
    }
    for &call in &left {
        let recorded = &history.calls[call];
        let preceded = |other: &&usize| history.calls[**other].answer.as_ref().is_some_and(|(at, _)| *at < recorded.called_at);
        let is_later = |other: &usize| recorded.lost_at.is_some_and(|lost_at| lost_at < history.calls[*other].called_at);
        if left.iter().find(preceded).is_some() || placed.iter().any(is_later) {
            continue;
        }
        let outcome = recorded.answer.as_ref().map(|(_, outcome)| outcome);
        let Some(after) = <Register<u32> as crate::linearizability::Specification>::step(&state, &recorded.call, outcome)
        else {
            continue;
        };
        placed.push(call);
        let explained = explained_by_trying(history, after, placed);
        placed.pop();
        if explained {
            return true;
        }
    }
    false
}

/// Random histories with random outcomes, some right, some wrong: the search says what trying all orders says.
#[test]
fn agrees_with_trying_all_orders() {
    let mut verdicts = [0, 0];
    for seed in 0..3_000 {
        let mut choices = Seeded::new(seed);
        let mut history = Key::default();
        let mut open: Vec<(CallId, Call<u32>)> = Vec::new();
        for _ in 0..10 {
            if open.is_empty() || (open.len() < 4 && choices.percent(55)) {
                let value = |choices: &mut Seeded| [None, Some(1), Some(2)][choices.below(3)];
                let call = match choices.below(3) {
                    0 => Call::Read,
                    1 => Call::Write(value(&mut choices)),
                    _ => Call::Swap { expected: value(&mut choices), new: value(&mut choices) },
                };
                open.push((history.call(call.clone()), call));
            } else {
                let (id, call) = open.swap_remove(choices.below(open.len()));
                if choices.percent(15) {
                    history.lose(id);
                    continue;
                }
                let found = [None, Some(1), Some(2)][choices.below(3)];
                let outcome = match call {
                    Call::Read => Outcome::Read(found),
                    Call::Write(_) => Outcome::Written,
                    Call::Swap { .. } if choices.percent(50) => Outcome::Swapped,
                    Call::Swap { .. } if choices.percent(30) => Outcome::Occupied,
                    Call::Swap { .. } => Outcome::Differs { found },
                };
                history.answer(id, outcome);
            }
        }
        let expected = explained_by_trying(&history, None, &mut Vec::new());
        assert_eq!(history.check(None).is_ok(), expected, "seed {seed}:\n{history}");
        verdicts[usize::from(expected)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 300), "{verdicts:?}");
}

/// What nobody heard of could have had its effect at any time: trying all subsets would take for ever.
#[test]
fn many_calls_that_nobody_heard_of_are_judged_in_little_time() {
    for is_wrong in [false, true] {
        let mut history = Key::default();
        for round in 0..60 {
            history.call(Call::Write(None));
            history.call(Call::Write(Some(1_000 + round)));
            history.call(Call::Swap { expected: None, new: Some(2_000 + round) });
            write(&mut history, Some(round));
            read(&mut history, if round % 3 == 0 { None } else { Some(round) });
            let swap = history.call(Call::Swap { expected: None, new: Some(3_000 + round) });
            history.answer(swap, Outcome::Occupied);
        }
        if is_wrong {
            write(&mut history, Some(9));
            read(&mut history, Some(10));
        }
        match history.check(None) {
            Ok(_) => assert!(!is_wrong),
            Err(violation) => assert!(is_wrong && !violation.gave_up, "{}", violation.gave_up),
        }
    }
}
