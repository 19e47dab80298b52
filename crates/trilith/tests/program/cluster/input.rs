//! What a cluster does not take: each is refused with a reason, and nothing has changed.

use super::fixture::Cluster;
use crate::server::{Home, program, text};
use std::path::Path;
use std::process::Output;

/// What a command complained about that had to fail.
fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

fn show(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn joins_that_are_wrong_change_nothing() {
    let cluster = Cluster::of_one();
    let join = |token: &str, data: &Path| refused(cluster.join(1, token, show(data)));
    let (fresh, other) = (cluster.home.path("fresh"), Cluster::of_one());

    assert!(join("secret", &fresh).contains("a token looks like"));
    let mut wrong = cluster.token.clone();
    let last = if wrong.pop() == Some('0') { '1' } else { '0' };
    wrong.push(last);
    assert!(join(&wrong, &fresh).contains("wrong token"));
    assert!(join(&other.token, &fresh).contains("another cluster"));
    assert!(!fresh.exists(), "nothing was made");

    // A folder of a server of its own, one of a cluster, and one with an address that is none.
    let own = Home::new();
    own.serve(&[]).stop();
    let before = files(&own.data());
    assert!(join(&cluster.token, &own.data()).contains("server of its own"));
    assert!(refused(cluster.init(1, show(&own.data()))).contains("server of its own"));
    assert_eq!(files(&own.data()), before);
    assert!(join(&cluster.token, &other.data(0)).contains("already"));
    let mut command = program();
    command.args(["cluster", "init", "--cluster-addr", "somewhere", "--data", show(&fresh)]);
    assert!(refused(command.output().unwrap()).contains("an address and a port"));
    let mut command = program();
    command.args(["cluster", "init", "--cluster-addr", "10.1.2.3:9002", "--data", show(&fresh)]);
    assert!(refused(command.output().unwrap()).contains("--trust-network"));
    assert!(!fresh.exists(), "nothing was made");

    // Nobody there.
    let mut command = program();
    let nobody = super::fixture::own_address() + ":9002";
    command.args(["cluster", "join", &cluster.token, "--via", &nobody, "--cluster-addr", &cluster.at(1), "--data"]);
    assert!(refused(command.arg(&fresh).output().unwrap()).contains("no node of the cluster answered"));
    assert!(refused(program().args(["cluster", "token", "--data"]).arg(&fresh).output().unwrap()).contains("no node"));
    assert!(!fresh.exists(), "nothing was made");
    let nodes = cluster.status(0).unwrap()["cell"]["nodes"].as_array().unwrap().len();
    assert_eq!(nodes, 1);
}

#[test]
fn a_server_of_its_own_has_no_cluster_status() {
    let home = Home::new();
    let server = home.serve(&[]);
    let complaint = server.fail(&["cluster", "status"]);
    assert!(complaint.contains("a server of its own"), "{complaint}");
}

/// Names and contents of a folder's small files.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let is_small = entry.metadata().unwrap().len() < 1 << 20;
        let content = if is_small { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
        found.push((entry.file_name().into_string().unwrap(), content));
    }
    found.sort();
    found
}
