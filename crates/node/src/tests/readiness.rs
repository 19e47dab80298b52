//! Whether a node says that it answers clients.

use super::closing::lead_by;
use super::cluster::{Cluster, address};
use super::hanging::node;
use super::service::{get, simulate};
use net::LinkWeather;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

async fn comes_to_answer(cluster: &Cluster, number: usize, answers: bool) {
    let until = cluster.env.now() + LIMIT;
    while node(cluster, number).may_answer() != answers {
        assert!(cluster.env.now() < until, "node {number} does not say {answers}");
        cluster.env.sleep(PAUSE).await;
    }
}

#[test]
fn a_gateway_that_is_cut_off_does_not_say_that_it_answers() {
    simulate(async {
        let cluster = Cluster::start(69).await;
        lead_by(&cluster, node(&cluster, 0).manager()).await;
        for at in 0..3 {
            comes_to_answer(&cluster, at, true).await;
        }
        let cut = LinkWeather { is_cut: true, ..LinkWeather::default() };
        for other in [0, 1] {
            cluster.network.set_link(&address(2), &address(other), cut);
            cluster.network.set_link(&address(other), &address(2), cut);
        }
        comes_to_answer(&cluster, 2, false).await;
        assert!(node(&cluster, 2).store().is_some(), "it has not heard that it is out");
        get(&*node(&cluster, 2).engine(), "key").await.expect_err("it answers nothing");
        for at in [0, 1] {
            comes_to_answer(&cluster, at, true).await;
        }
        cluster.network.clear_links();
        cluster.all_serve().await;
        for at in 0..3 {
            comes_to_answer(&cluster, at, true).await;
        }
    });
}
