//! A power cut at every write of a seeded workload. What was answered is there; what was under way is there or not, and never in
//! between. And the proof that the test can fail: on a disk that lies about durability it does.

use std::time::Duration;

use disk::CompletionOrder;
use env::Env;
use futures_util::future::join_all;
use model::choice::{Choose, Seeded};

use super::ledger::{Act, CHUNKS, State, block_of, expected, id_of, is_as, is_overwritten, observe, request};
use super::support::{Rig, formatted};
use crate::message::{NodeAnswer, NodeRefusal};

const ROUNDS: usize = 14;
/// Chunks that are asked about at once.
const AT_ONCE: usize = 3;

fn seeds() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 60 } else { 3 }
}

/// What was asked and answered until the cut, or to the end.
struct History {
    rig: Rig,
    /// What each copy may be.
    allowed: Vec<Vec<State>>,
    mutations: u64,
}

fn choose_act(choose: &mut Seeded, state: &State, round: usize) -> Act {
    let counter = round as u64 + 1;
    match state {
        State::Absent => Act::Put,
        State::Live { .. } => match choose.below(8) {
            0 => Act::End,
            1 => Act::Depart,
            2 => Act::Erase,
            _ => Act::Write { counter },
        },
        _ => Act::Forget,
    }
}

async fn run(seed: u64, cut: Option<u64>, is_liar: bool) -> History {
    let env = Env::simulated(seed);
    let rig = Rig::open(&env, &formatted(&env, seed).await).await;
    rig.disk.set_ignores_flush(is_liar);
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let before = rig.disk.mutations();
    if let Some(cut) = cut {
        rig.disk.power_cut_after(cut);
    }
    let mut choose = Seeded::new(seed);
    let mut states = vec![State::Absent; CHUNKS];
    let mut allowed: Vec<Vec<State>> = states.iter().map(|state| vec![state.clone()]).collect();
    for round in 0..ROUNDS {
        let first = choose.below(CHUNKS);
        let chunks: Vec<usize> = (0..AT_ONCE).map(|more| (first + more * 3) % CHUNKS).collect();
        let acts: Vec<(usize, Act)> =
            chunks.iter().map(|chunk| (*chunk, choose_act(&mut choose, &states[*chunk], round))).collect();
        let asking = acts.iter().map(|(chunk, act)| rig.try_ask(block_of(*chunk), id_of(*chunk), request(*chunk, *act)));
        for (answer, (chunk, act)) in join_all(asking).await.into_iter().zip(acts) {
            let (state, wanted) = expected(chunk, &states[chunk], act);
            match answer {
                Some(NodeAnswer::Refused(NodeRefusal::Full)) if act == Act::Put => {}
                Some(answer) => {
                    assert_eq!(answer, wanted, "{act:?} of {:?}", states[chunk]);
                    states[chunk] = state;
                    allowed[chunk] = vec![states[chunk].clone()];
                }
                None => {
                    allowed[chunk].push(state);
                    let is_over = is_overwritten(chunk) && matches!(act, Act::Write { .. });
                    allowed[chunk].extend(is_over.then_some(State::Damaged));
                }
            }
        }
        if rig.disk.power_is_cut() {
            break;
        }
    }
    let mutations = rig.disk.mutations() - before;
    History { rig, allowed, mutations }
}

/// What is wrong after the cut; empty if all is well.
async fn judge(history: &History) -> Vec<String> {
    let disk = history.rig.disk.crash();
    disk.set_order(CompletionOrder::Inline);
    disk.set_ignores_flush(false);
    let rig = Rig::open(&history.rig.env, &disk).await;
    let mut wrong: Vec<String> = rig.store.damaged_blocks().iter().map(|(block, _)| format!("block {block} is lost")).collect();
    let mut observed = Vec::new();
    for (chunk, allowed) in history.allowed.iter().enumerate() {
        let state = observe(&rig, chunk).await;
        if !allowed.iter().any(|allowed| is_as(&state, allowed)) {
            wrong.push(format!("chunk {chunk} is {state:?}, may be one of {allowed:?}"));
        }
        if *allowed == [State::Forgotten] {
            let late = rig.ask(block_of(chunk), id_of(chunk), request(chunk, Act::Put)).await;
            if late != NodeAnswer::Refused(NodeRefusal::Resolved) {
                wrong.push(format!("chunk {chunk} was forgotten, and a late put is answered with {late:?}"));
            }
        }
        observed.push(state);
    }
    if wrong.is_empty() {
        go_on(rig, observed).await;
    }
    wrong
}

/// Everything can be changed again, and that is found as well.
async fn go_on(rig: Rig, observed: Vec<State>) {
    let act = Act::Write { counter: 1_000 };
    let mut wanted = Vec::new();
    for (chunk, state) in observed.into_iter().enumerate() {
        let answer = rig.ask(block_of(chunk), id_of(chunk), request(chunk, act)).await;
        let before = if state == State::Damaged { live_before(chunk) } else { state };
        let (after, expected) = expected(chunk, &before, act);
        assert_eq!(answer, expected, "chunk {chunk}");
        wanted.push(after);
    }
    let rig = rig.crash().await;
    for (chunk, wanted) in wanted.iter().enumerate() {
        let observed = observe(&rig, chunk).await;
        assert!(is_as(&observed, wanted), "chunk {chunk} is {observed:?} after a second cut, expected {wanted:?}");
    }
}

/// A damaged copy takes a newer write as a live one does.
fn live_before(chunk: usize) -> State {
    expected(chunk, &State::Absent, Act::Put).0
}

#[tokio::test(start_paused = true)]
async fn a_cut_at_any_write_leaves_what_was_answered_and_nothing_in_between() {
    let mut cuts = 0;
    for seed in 0..seeds() {
        let mutations = run(seed, None, false).await.mutations;
        assert!(mutations > 30, "seed {seed} writes {mutations} times");
        for cut in 0..mutations {
            let history = run(seed, Some(cut), false).await;
            let wrong = judge(&history).await;
            assert!(wrong.is_empty(), "seed {seed}, cut {cut}: {wrong:?}");
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_lies_about_durability_is_found_out() {
    let mut found = 0;
    for cut in (10..60).step_by(5) {
        let history = run(1, Some(cut), true).await;
        found += usize::from(!judge(&history).await.is_empty());
    }
    assert!(found > 5, "a test that passes on such a disk tests nothing: {found}");
}
