use super::Clocks;
use env::Env;
use manager::{Manager, RegisterNode};
use types::{NodeId, NodeIdentity};

const NOON: u64 = 1_700_000_000_000;

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_is_named_once_and_once_when_it_is_right_again() {
    let manager = Manager::open_in_memory(&Env::simulated(1)).await.unwrap();
    let register = RegisterNode {
        identity: NodeIdentity([1; 16]),
        name: "node-1".to_owned(),
        address: "here:1".to_owned(),
        admin_address: String::new(),
        s3_address: String::new(),
        host: String::new(),
        rack: String::new(),
        zone: String::new(),
        version: String::new(),
        joined_ms: 0,
    };
    let node = manager.register_node(register).await.unwrap().id;
    let (state, mut clocks) = (manager.snapshot(), Clocks::default());
    let mut is_news = |node: NodeId, theirs_ms: u64| clocks.note(&state, node, theirs_ms, NOON);
    assert!(!is_news(node, NOON) && !is_news(node, NOON + 60_000));
    assert!(is_news(node, NOON + 61_000) && !is_news(node, NOON + 900_000));
    assert!(is_news(node, NOON - 1_000) && !is_news(node, NOON));
    assert!(is_news(node, NOON - 61_000));
    assert!(!is_news(NodeId(77), 0), "whoever that is");
}
