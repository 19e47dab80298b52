//! A manager, a target and a gateway that are nodes of their own.

use super::fixture::{Cluster, await_some};
use super::input::{refused, refused_serve, show};
use crate::http::Connection;
use crate::server::{program, text};
use std::time::Duration;

const MANAGER: usize = 0;
const TARGET: usize = 1;
const GATEWAY: usize = 2;
/// Until a node counts as silent, or all see each other again.
const PATIENCE: Duration = Duration::from_secs(60);

/// One node of each role.
fn apart() -> Cluster {
    let mut cluster = Cluster::of_one_with("manager");
    cluster.join_and_spawn_with(TARGET, "target");
    cluster.await_ready(TARGET);
    cluster.join_and_spawn_with(GATEWAY, "gateway");
    cluster.await_ready(GATEWAY);
    cluster
}

/// What `trilith cluster status` says of the gateways, asked of one node that answers, and whether it finds all well.
fn gateways(cluster: &Cluster, by: usize) -> Option<(Vec<String>, bool)> {
    let output = program().args(["cluster", "status", "--admin", &cluster.admin(by)]).output().unwrap();
    let said = text(&output.stdout);
    let of = |node: usize| {
        let line = said.lines().find(|line| line.starts_with(&cluster.at(node)))?;
        Some(line.split_whitespace().nth(2)?.to_owned())
    };
    Some(([MANAGER, TARGET, GATEWAY].map(of).into_iter().collect::<Option<_>>()?, output.status.success()))
}

fn await_gateways(cluster: &Cluster, by: usize, expected: [&str; 3], is_well: bool) {
    let what = format!("{expected:?} by node {by}");
    let expected = Some((expected.map(str::to_owned).to_vec(), is_well));
    await_some(PATIENCE, &what, || (gateways(cluster, by) == expected).then_some(()));
}

fn has_object(cluster: &Cluster) -> bool {
    let answer = Connection::open(&cluster.s3(GATEWAY)).and_then(|mut connection| connection.get("/apart/object"));
    answer.is_ok_and(|answer| answer.status == 200 && answer.text() == "content")
}

#[test]
fn each_role_is_a_process() {
    let mut cluster = apart();
    for node in [MANAGER, TARGET] {
        assert!(Connection::open(&cluster.s3(node)).is_err(), "node {node} leaves S3 to others");
        await_gateways(&cluster, node, ["none", "none", "serves"], true);
    }
    assert!(
        !cluster.data(MANAGER).join("device-0.trilith").exists() && !cluster.data(GATEWAY).join("device-0.trilith").exists()
    );
    let cell = cluster.status(TARGET).unwrap()["cell"].clone();
    let votes = |node: &usize| {
        let nodes = cell["nodes"].as_array().unwrap();
        nodes.iter().any(|one| one["address"] == cluster.at(*node).as_str() && one["votes"] == true)
    };
    assert_eq!([MANAGER, TARGET, GATEWAY].map(|node| votes(&node)), [true, false, false]);
    cluster.run(GATEWAY, &["bucket", "make", "apart"]);
    cluster.run(GATEWAY, &["bucket", "policy", "set", "apart", "public-read-write"]);
    let put = Connection::open(&cluster.s3(GATEWAY)).unwrap().ask("PUT", "/apart/object", &[], b"content").unwrap();
    assert_eq!(put.status, 200, "{}", put.text());
    assert!(has_object(&cluster));

    // The target is away, is missed, and comes back; then all of them.
    cluster.stop(TARGET);
    await_gateways(&cluster, MANAGER, ["none", "away", "serves"], false);
    cluster.spawn(TARGET);
    await_gateways(&cluster, GATEWAY, ["none", "none", "serves"], true);
    cluster.kill_all(&[MANAGER, TARGET, GATEWAY]);
    [GATEWAY, TARGET, MANAGER].into_iter().for_each(|node| cluster.spawn(node));
    await_some(PATIENCE, "the object", || has_object(&cluster).then_some(()));
    for node in [MANAGER, TARGET, GATEWAY] {
        cluster.await_ready(node);
    }
}

#[test]
fn roles_that_can_not_be_are_refused() {
    let mut cluster = apart();
    let fresh = cluster.home.path("fresh");
    let mut init = program();
    init.args(["cluster", "init", "--roles", "target,gateway", "--data", show(&fresh)]);
    assert!(refused(init.output().unwrap()).contains("has the role manager"));
    let mut init = program();
    let unknown = init.args(["cluster", "init", "--roles", "minister", "--data", show(&fresh)]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("manager, target or gateway"), "{}", text(&unknown.stderr));
    assert!(!fresh.exists(), "nothing was made");

    let change = |cluster: &Cluster, node: usize, former: &str, later: &str| {
        let path = cluster.data(node).join("cluster.toml");
        let place = std::fs::read_to_string(&path).unwrap();
        assert!(place.contains(former), "{place}");
        std::fs::write(&path, place.replace(former, later)).unwrap();
    };
    let complaint = |cluster: &Cluster, node: usize, more: &[&str]| refused_serve(cluster, node, &cluster.data(node), more);
    cluster.stop(GATEWAY);
    let said = complaint(&cluster, GATEWAY, &["--devices", show(&cluster.data(TARGET).join("device-0.trilith"))]);
    assert!(said.contains("serves no disks"), "{said}");
    cluster.stop(TARGET);
    change(&cluster, TARGET, "[\"target\"]", "[\"gateway\"]");
    let said = complaint(&cluster, TARGET, &[]);
    assert!(said.contains("objects may have copies on it"), "{said}");
    change(&cluster, TARGET, "[\"gateway\"]", "[\"target\"]");
    cluster.stop(MANAGER);
    change(&cluster, MANAGER, "[\"manager\"]", "[\"gateway\"]");
    let said = complaint(&cluster, MANAGER, &[]);
    assert!(said.contains("keeps the role `manager`"), "{said}");

    // A role more is taken at the next start: now there are two gateways.
    change(&cluster, MANAGER, "[\"gateway\"]", "[\"gateway\", \"manager\"]");
    [MANAGER, TARGET, GATEWAY].into_iter().for_each(|node| cluster.spawn(node));
    await_gateways(&cluster, TARGET, ["serves", "none", "serves"], true);
}
