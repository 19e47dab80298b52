//! Any requests in any order, with crashes between: the store does what the model of single chunks does.

use env::Env;
use proptest::prelude::*;

use super::ledger::{Act, CHUNKS, State, block_of, expected, id_of, is_as, observe, request};
use super::support::{Rig, formatted};
use crate::message::{NodeAnswer, NodeRefusal};

#[derive(Clone, Copy, Debug)]
enum Step {
    Ask {
        chunk: usize,
        act: Act,
    },
    /// The process ends, or the power goes as well.
    Restart {
        has_power: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let act = prop_oneof![
        6 => Just(Act::Put),
        6 => (1_u64..6).prop_map(|counter| Act::Write { counter }),
        1 => Just(Act::End),
        1 => Just(Act::Depart),
        1 => Just(Act::Erase),
        2 => Just(Act::Forget),
    ];
    prop_oneof![
        12 => (0..CHUNKS, act).prop_map(|(chunk, act)| Step::Ask { chunk, act }),
        1 => any::<bool>().prop_map(|has_power| Step::Restart { has_power }),
    ]
}

async fn run(steps: Vec<Step>) {
    let env = Env::simulated(1);
    let mut rig = Rig::open(&env, &formatted(&env, 1).await).await;
    let mut states = vec![State::Absent; CHUNKS];
    for step in steps {
        match step {
            Step::Ask { chunk, act } => {
                let answer = rig.ask(block_of(chunk), id_of(chunk), request(chunk, act)).await;
                let (state, wanted) = expected(chunk, &states[chunk], act);
                let is_out_of_room = act == Act::Put && answer == NodeAnswer::Refused(NodeRefusal::Full);
                if !is_out_of_room {
                    assert_eq!(answer, wanted, "{step:?} of {:?}", states[chunk]);
                    states[chunk] = state;
                }
            }
            Step::Restart { has_power } => {
                rig = if has_power { Rig::open(&env, &rig.disk.restart()).await } else { rig.crash().await };
            }
        }
        for (chunk, state) in states.iter().enumerate() {
            let observed = observe(&rig, chunk).await;
            assert!(is_as(&observed, state), "after {step:?} chunk {chunk} is {observed:?}, expected {state:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(steps));
    }
}
