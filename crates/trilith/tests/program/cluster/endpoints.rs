//! Clients for a cluster that runs already: `tests/cluster` breaks it meanwhile.
//!
//! `TRILITH_ENDPOINTS` names the S3 ports, separated by commas; the bucket `linear` is there and open to everybody. Standard input tells what
//! to do, a word on each line: `go` lets clients ask, `rest` waits for their last answers, and `judge`, said when the cluster is whole, reads
//! everything once at every node, judges the history and begins another one with empty keys. A line on standard output that begins with
//! `explained` says what was heard.

use super::traffic::Traffic;

#[test]
#[ignore = "needs a cluster that runs: python3 tests/cluster"]
fn clients_of_a_cluster_that_runs() {
    let endpoints = std::env::var("TRILITH_ENDPOINTS").expect("TRILITH_ENDPOINTS names the S3 ports");
    let nodes: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
    let mut traffic = Traffic::new();
    let mut words = std::io::stdin().lines().map(|line| line.expect("standard input can be read"));
    while let Some(word) = words.next() {
        match word.as_str() {
            "go" => traffic.during(&nodes, |_| assert_eq!(words.next().as_deref(), Some("rest"))),
            "judge" => {
                traffic.look(&nodes);
                traffic.judge();
                println!("explained {}", traffic.record.counts());
                traffic.begin_anew(&nodes);
            }
            other => panic!("told to {other}"),
        }
    }
}
