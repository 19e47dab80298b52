use std::time::Duration;

use env::Env;
use types::NodeId;

use super::Breakers;
use crate::limits::BREAKER_WAIT;

const NODE: NodeId = NodeId(4);

async fn silence() -> Option<()> {
    None
}

#[tokio::test(start_paused = true)]
async fn a_node_that_did_not_answer_is_passed_by_until_it_does() {
    let env = Env::simulated(1);
    let breakers = Breakers::new(&env);
    assert!(!breakers.is_open(NODE));
    breakers.watch(NODE, silence()).await;
    assert!(breakers.is_open(NODE) && !breakers.is_open(NodeId(5)));
    assert_eq!(breakers.open_nodes(), [NODE]);
    // Where no other will do it is asked all the same.
    breakers.watch(NODE, async { Some(()) }).await;
    assert!(!breakers.is_open(NODE));
    assert_eq!(breakers.open_nodes(), []);
}

#[tokio::test(start_paused = true)]
async fn after_a_while_one_caller_tries_it_and_others_go_on_passing_by() {
    let env = Env::simulated(1);
    let breakers = Breakers::new(&env);
    breakers.watch(NODE, silence()).await;
    env.sleep(BREAKER_WAIT).await;
    assert!(!breakers.is_open(NODE), "somebody may try");
    let long = Duration::from_millis(100);
    let trial = breakers.watch(NODE, async {
        env.sleep(long).await;
        assert!(breakers.is_open(NODE), "nobody else does");
        None::<()>
    });
    trial.await;
    env.sleep(BREAKER_WAIT - long).await;
    assert!(breakers.is_open(NODE), "the wait begins with the end of the trial");
}
