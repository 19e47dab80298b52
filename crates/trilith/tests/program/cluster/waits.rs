//! `trilith cluster status --wait`: until the next node may be stopped.

use super::fixture::Cluster;
use crate::server::{program, text};

/// What the command says, and whether it finds that nothing is left.
fn wait(cluster: &Cluster, by: usize, patience: &str) -> (bool, String) {
    let mut command = program();
    command.args(["cluster", "status", "--wait", patience, "--admin", &cluster.admin(by)]);
    let output = command.output().unwrap();
    (output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

#[test]
fn who_waits_is_told_when_all_is_well_again_and_else_what_is_left() {
    let mut cluster = Cluster::of_three();
    let (is_well, said) = wait(&cluster, 1, "90s");
    assert!(is_well && said.contains("written"), "{said}");
    cluster.kill(2);
    let (is_well, said) = wait(&cluster, 0, "3s");
    assert!(!is_well && said.contains("after 3 seconds") && said.contains(&format!("{} is away", cluster.at(2))), "{said}");
    cluster.spawn(2);
    // By the one that is started, too.
    let (is_well, said) = wait(&cluster, 2, "90s");
    assert!(is_well, "{said}");
    cluster.settle();
    let cell = cluster.status(0).unwrap()["cell"].clone();
    assert_eq!(cell["repair_left"], 0);
    assert!(cell["nodes"].as_array().unwrap().iter().all(|node| node["clock_off_ms"].is_null()), "{cell}");
    assert!(cell["devices"].as_array().unwrap().iter().all(|device| device["state"] == "active"), "{cell}");
    let nonsense = program().args(["cluster", "status", "--wait", "soon"]).output().unwrap();
    assert!(text(&nonsense.stderr).contains("a time such as 30s"), "{}", text(&nonsense.stderr));
}
