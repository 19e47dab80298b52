//! What a cluster does not take: each is refused with a reason, and nothing has changed.

use super::fixture::Cluster;
use crate::server::{Home, PATIENCE, program, text};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a command complained about that had to fail.
pub fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

pub fn show(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Serves a folder that must be refused: what it says at its end.
pub fn refused_serve(cluster: &Cluster, node: usize, data: &Path, more: &[&str]) -> String {
    let mut command = cluster.serve_command(node, data);
    let mut child = command.args(more).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    while child.try_wait().unwrap().is_none() && env.now() < deadline {
        std::thread::sleep(crate::server::LOOK);
    }
    // It may have ended.
    drop(child.kill());
    refused(child.wait_with_output().unwrap())
}

/// Others see the arguments of a command, and who has the token has the cluster.
#[test]
fn a_join_takes_its_token_from_elsewhere_too() {
    let cluster = Cluster::of_one();
    let join = |data: &str| {
        let (via, address) = (cluster.at(0), cluster.at(1));
        let mut command = program();
        command.args(["cluster", "join", "--via", &via, "--cluster-addr", &address, "--data", data]);
        command
    };
    let (one, two) = (cluster.home.path("one"), cluster.home.path("two"));
    let mut asks = join(show(&one)).arg("-").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(asks.stdin.take().unwrap(), "{}", cluster.token).unwrap();
    let asked = asks.wait_with_output().unwrap();
    assert!(asked.status.success() && one.join("cluster.toml").exists(), "{}", text(&asked.stderr));
    let told = join(show(&two)).env("TRILITH_CLUSTER_TOKEN", &cluster.token).output().unwrap();
    assert!(told.status.success() && two.join("cluster.toml").exists(), "{}", text(&told.stderr));
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
    assert!(join(&cluster.token, &own.data()).contains("already"));
    assert!(refused(cluster.init(1, show(&own.data()))).contains("already"));
    assert_eq!(files(&own.data()), before);
    assert!(join(&cluster.token, &other.data(0)).contains("already"));
    let mut command = program();
    command.args(["cluster", "init", "--cluster-addr", "somewhere", "--data", show(&fresh)]);
    assert!(refused(command.output().unwrap()).contains("an address and a port"));
    let mut command = program();
    command.args(["cluster", "join", &cluster.token, "--via", &cluster.at(0), "--cluster-addr", "10.1.2.3:9002", "--data"]);
    assert!(refused(command.arg(&fresh).output().unwrap()).contains("--trust-network"));
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
fn a_lone_server_is_a_cluster_of_one_node() {
    let home = Home::new();
    let server = home.serve(&[]);
    let told = server.run(&["cluster", "status"]);
    assert!(told.contains("view     1 of 1 gateways") && told.contains("this-machine"), "{told}");
    let token = program().args(["cluster", "token", "--data"]).arg(home.data()).output().unwrap();
    assert!(refused(token).contains("trilith cluster open"), "no other node reaches it yet");
}

/// Nodes that the cluster can't take: an address or a name that is taken, a disk of another cluster.
#[test]
fn nodes_that_do_not_fit_are_refused_and_the_others_go_on() {
    let mut cluster = Cluster::of_one();
    cluster.make_open_bucket("fit");
    let join = |node: usize, name: &str, more: &[&str]| {
        let (address, via) = (cluster.at(node), cluster.at(0));
        let mut join = program();
        join.args(["cluster", "join", &cluster.token, "--via", &via, "--cluster-addr", &address, "--data"]);
        join.arg(cluster.home.path(name)).args(more).output().unwrap()
    };
    let complaint = refused(join(1, "same-name", &["--name", &cluster.at(0)]));
    assert!(complaint.contains("has the name"), "{complaint}");
    let complaint = refused(join(0, "same-address", &["--name", "other"]));
    assert!(complaint.contains("has the cluster address"), "{complaint}");
    assert!(!cluster.home.path("same-name").exists() && !cluster.home.path("same-address").exists(), "nothing was made");
    // The folder of a running node, copied: the same identity on another address.
    let copy = cluster.home.path("copy");
    let copied = Command::new("cp").args(["-r", "--sparse=always"]).args([&cluster.data(0), &copy]).output().unwrap();
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    let place = std::fs::read_to_string(copy.join("cluster.toml")).unwrap();
    std::fs::write(copy.join("cluster.toml"), place.replace(&cluster.at(0), &cluster.at(1))).unwrap();
    let complaint = refused_serve(&cluster, 1, &copy, &[]);
    assert!(complaint.contains("with the same identity"), "{complaint}");

    // The first node's place alone: it does not form a second cluster of that name.
    let bare = cluster.home.path("bare");
    std::fs::create_dir(&bare).unwrap();
    std::fs::copy(copy.join("cluster.toml"), bare.join("cluster.toml")).unwrap();
    for is_there in [false, true] {
        if is_there {
            std::fs::create_dir_all(bare.join("consensus/segments")).unwrap();
        }
        let complaint = refused_serve(&cluster, 1, &bare, &[]);
        assert!(complaint.contains("gone or empty"), "{complaint}");
    }

    // A disk of another cluster.
    let (mut other, data) = (Cluster::of_one(), cluster.data(1));
    assert!(cluster.join(1, &cluster.token, show(&data)).status.success());
    other.stop(0);
    let disk = other.data(0).join("device-0.trilith");
    let complaint = refused_serve(&cluster, 1, &data, &["--devices", show(&disk)]);
    assert!(complaint.contains("cluster"), "{complaint}");
    other.spawn(0);
    other.await_ready(0);

    // With a disk of its own it is taken, and so is another one.
    cluster.format(1);
    cluster.spawn(1);
    cluster.join_and_spawn(2);
    cluster.settle();

    // What it has voted for is gone: it would promise the same vote to somebody else.
    cluster.stop(1);
    let (votes, away) = (data.join("consensus"), data.join("away"));
    std::fs::rename(&votes, &away).unwrap();
    let complaint = refused_serve(&cluster, 1, &data, &[]);
    assert!(complaint.contains("gone or empty") && complaint.contains("cluster remove"), "{complaint}");
    std::fs::rename(&away, &votes).unwrap();
    cluster.spawn(1);
    cluster.settle();
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
