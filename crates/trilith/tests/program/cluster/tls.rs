//! Clusters whose nodes are connected by TLS.

use super::NODES;
use super::fixture::Cluster;
use super::input::{refused, refused_serve, show};
use crate::http::Connection;
use crate::server::{PATIENCE, program, text};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What a plain connection says first begins so.
const PLAIN_MAGIC: &[u8] = b"TRN1";
/// Longer than a header with its hello.
const GARBAGE: [u8; 200] = [b'T'; 200];

/// Sends these bytes to a node's cluster port; what comes back until it closes.
fn told(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn put(cluster: &Cluster, node: usize, key: &str) {
    let answer = Connection::open(&cluster.s3(node)).unwrap().ask("PUT", &format!("/kept/{key}"), &[], key.as_bytes());
    assert_eq!(answer.unwrap().status, 200, "{key} at {node}");
}

fn all_have(cluster: &Cluster, key: &str) {
    for node in 0..NODES {
        let answer = Connection::open(&cluster.s3(node)).unwrap().get(&format!("/kept/{key}")).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, key), "at {node}");
    }
}

/// Nobody is served who does not speak TLS.
fn plain_strangers_hear_nothing(cluster: &Cluster) {
    for node in 0..NODES {
        let heard = told(&cluster.at(node), &GARBAGE);
        assert!(!heard.starts_with(PLAIN_MAGIC) && heard.len() < 32, "{heard:?}");
    }
}

#[test]
fn nodes_with_tls_serve_and_take_no_strangers() {
    let (cluster, other) = (Cluster::found(true, true), Cluster::found(true, true));
    assert!(cluster.token.starts_with("trilith2."), "{}", cluster.token);
    let mode = std::fs::metadata(cluster.data(0).join("cluster.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "others can read the cluster's secret");
    strangers_do_not_join(&cluster, &other);
    drop(other);

    let mut cluster = cluster.grown();
    cluster.make_open_bucket("kept");
    (0..NODES).for_each(|node| put(&cluster, node, &format!("from-{node}")));
    (0..NODES).for_each(|node| all_have(&cluster, &format!("from-{node}")));
    plain_strangers_hear_nothing(&cluster);
    // A node that was killed shows another certificate afterwards.
    cluster.kill(1);
    cluster.await_away(&[1]);
    put(&cluster, 0, "meanwhile");
    cluster.spawn(1);
    cluster.settle();
    all_have(&cluster, "meanwhile");
}

fn strangers_do_not_join(cluster: &Cluster, other: &Cluster) {
    let fresh = cluster.home.path("fresh");
    let join = |token: &str| refused(cluster.join(1, token, show(&fresh)));
    let complaint = join(&other.token);
    assert!(complaint.contains("of another cluster"), "{complaint}");
    let (head, last) = cluster.token.split_at(cluster.token.len() - 1);
    let wrong = format!("{head}{}", if last == "0" { '1' } else { '0' });
    let complaint = join(&wrong);
    assert!(complaint.contains("is the token wrong"), "{complaint}");
    // The right secret, on a plain connection.
    let complaint = join(&cluster.token.replace("trilith2.", "trilith1."));
    assert!(complaint.contains("the peer speaks TLS, and this end does not"), "{complaint}");
    let mut command = program();
    command.args(["cluster", "join", &cluster.token, "--via", &cluster.at(0), "--cluster-addr", "10.1.2.3:9002"]);
    let complaint = refused(command.args(["--trust-network", "--data"]).arg(&fresh).output().unwrap());
    assert!(complaint.contains("--trust-network is for clusters without"), "{complaint}");
    assert!(!fresh.exists(), "nothing was made");
}

/// Beyond this machine a cluster has TLS unless somebody says otherwise. Nothing listens here: the addresses are not ours.
#[test]
fn tls_is_what_a_cluster_of_several_machines_has() {
    let home = crate::server::Home::new();
    let init = |name: &str, more: &[&str]| {
        let mut command = program();
        command.args(["cluster", "init", "--data"]).arg(home.path(name)).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let token = program().args(["cluster", "token", "--data"]).arg(home.path(name)).output().unwrap();
        text(&token.stdout)
    };
    let far = ["--cluster-addr", "10.1.2.3:9002"];
    assert!(init("far", &far).starts_with("trilith2."));
    assert!(init("near", &[]).starts_with("trilith1."));
    assert!(init("near-tls", &["--tls"]).starts_with("trilith2."));
    assert!(init("trusting", &[&far[..], &["--trust-network"]].concat()).starts_with("trilith1."));
}

/// What the operations handbook says of a cluster that gets TLS later, or another secret.
#[test]
fn a_stopped_cluster_gets_tls_and_another_secret_by_its_files() {
    let mut cluster = Cluster::of_three();
    cluster.make_open_bucket("kept");
    put(&cluster, 0, "before");
    assert!(told(&cluster.at(0), &GARBAGE).starts_with(PLAIN_MAGIC), "a plain cluster greets everybody");
    cluster.kill_all(&[0, 1, 2]);
    let edit = |cluster: &Cluster, node: usize, from: &str, to: &str| {
        let path = cluster.data(node).join("cluster.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
    };
    let secret = cluster.token.rsplit('.').next().unwrap().to_owned();
    for node in 0..NODES {
        edit(&cluster, node, "tls = false", "tls = true");
        edit(&cluster, node, &secret, "00112233445566778899aabbccddeeff");
        cluster.spawn(node);
    }
    cluster.settle();
    all_have(&cluster, "before");
    put(&cluster, 2, "after");
    all_have(&cluster, "after");
    plain_strangers_hear_nothing(&cluster);

    // A plain node beyond this machine that nobody asked for.
    cluster.stop(2);
    edit(&cluster, 2, "tls = true", "tls = false");
    edit(&cluster, 2, &cluster.at(2), "10.1.2.3:9002");
    let complaint = refused_serve(&cluster, 2, Path::new(&cluster.data(2)), &[]);
    assert!(complaint.contains("--trust-network allows it"), "{complaint}");
}
