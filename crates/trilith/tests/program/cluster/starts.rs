//! Starts of nodes: what they wait for, what they make, and what they leave to others.

use super::fixture::{Cluster, await_some};
use super::input::{refused, refused_serve, show};
use crate::devices::no_disk;
use crate::http::Connection;
use crate::server::{PATIENCE, program, text};
use std::path::Path;

/// Two nodes of which one is started alone wait for each other, and can be told to stop meanwhile.
#[test]
fn a_node_that_waits_for_a_majority_stops_when_it_is_told_to() {
    let mut cluster = Cluster::of_one();
    cluster.join_and_spawn(1);
    await_some(PATIENCE, "two votes", || {
        let status = cluster.status(1)?;
        let nodes = status["cell"]["nodes"].as_array()?;
        (nodes.len() == 2 && nodes.iter().all(|node| node["votes"] == true)).then_some(())
    });
    cluster.kill_all(&[0, 1]);
    cluster.spawn(0);
    await_some(PATIENCE, "a start that waits", || {
        let answer = Connection::open(&cluster.admin(0)).ok()?.get("/health/ready").ok()?;
        (answer.status == 503).then_some(())
    });
    cluster.stop(0);
    assert!(cluster.log(0).contains("told to stop before the start had ended"), "{}", cluster.log(0));
}

/// A file is made, at first and when it was lost. A disk is not.
#[test]
fn a_node_makes_files_and_no_disks() {
    let mut cluster = Cluster::of_one();
    cluster.stop(0);
    let data = cluster.data(0);
    let (first, second, no_disk) = (data.join("device-0.trilith"), data.join("second"), no_disk());
    let name = |more: &Path| {
        let settings = format!("devices = [{:?}, {:?}]\n", show(&first), show(more));
        std::fs::write(data.join("trilith.toml"), settings).unwrap();
    };
    name(&no_disk);
    let error = refused_serve(&cluster, 0, &data, &[]);
    assert!(error.contains("there is no disk") && !no_disk.exists(), "{error}");
    name(&second);
    let devices = |cluster: &Cluster| {
        let status = cluster.status(0)?;
        let devices = status["cell"]["devices"].as_array()?.iter().map(|device| device["device"].as_u64());
        devices.collect::<Option<Vec<u64>>>()
    };
    for expected in [vec![0, 1], vec![0, 2]] {
        cluster.spawn(0);
        cluster.await_ready(0);
        // The one that is replaced is forgotten.
        await_some(PATIENCE, "the devices", || (devices(&cluster)? == expected).then_some(()));
        cluster.stop(0);
        std::fs::remove_file(&second).unwrap();
    }
}

/// The others count on a member's vote, whatever its disks do. Who is refused for its disks before it is one has not joined.
#[test]
fn a_member_takes_part_before_its_disks_are_open() {
    let mut cluster = Cluster::of_one();
    let took_part = "connections between the nodes of the cluster";
    let refused_beside = |cluster: &Cluster, node| {
        let disk = std::fs::File::open(cluster.data(node).join("device-0.trilith")).unwrap();
        rustix::fs::flock(&disk, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let error = refused_serve(cluster, node, &cluster.data(node), &[]);
        assert!(error.contains("device-0.trilith is in use"), "{error}");
        error
    };
    let joined = cluster.join(1, &cluster.token, &cluster.data(1).display().to_string());
    assert!(joined.status.success(), "{}", text(&joined.stderr));
    cluster.format(1);
    let error = refused_beside(&cluster, 1);
    assert!(!error.contains(took_part), "{error}");
    cluster.stop(0);
    let error = refused_beside(&cluster, 0);
    assert!(error.contains(took_part), "{error}");
}

/// Where it listened is noted for whoever starts a copy of the folder. It starts without.
#[test]
fn a_node_starts_though_its_address_can_not_be_written_down() {
    let mut cluster = Cluster::of_one();
    cluster.stop(0);
    let noted = cluster.data(0).join("last-address");
    std::fs::remove_file(&noted).unwrap();
    std::os::unix::fs::symlink("/no/such/folder", &noted).unwrap();
    cluster.spawn(0);
    cluster.await_ready(0);
}

#[test]
fn fsck_is_for_servers_of_their_own() {
    let mut cluster = Cluster::of_one();
    cluster.stop(0);
    for more in [&[][..], &["--rebuild"]] {
        let error = refused(program().args(["fsck", "--data"]).arg(cluster.data(0)).args(more).output().unwrap());
        assert!(error.contains("of a cluster") && error.contains("trilith device scrub"), "{error}");
    }
}
