//! The shared log in a folder.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use env::Env;

use super::cluster::{GROUP, address};
use super::store::{Command, Store};
use crate::error::OpenError;
use crate::group::Group;
use crate::id::NodeId;
use crate::log::{BASE_BYTES, BaseError, LogError, LogPlace, PlaceError};
use crate::node::Node;
use crate::transport::SimulatedTransport;

const NODE: NodeId = NodeId(1);

async fn open(env: &Env, folder: &Path, node: NodeId) -> Result<(Node, Group<Store>), OpenError> {
    let place = LogPlace::in_folder(env, folder).await.unwrap();
    let node = Node::open(env, node, &place, SimulatedTransport::new(env).port(node)).await?;
    let group = node.start_group(GROUP, Store::default()).await.unwrap();
    Ok((node, group))
}

async fn shut_down((node, group): (Node, Group<Store>)) {
    node.shut_down().await;
    drop((node, group));
}

#[tokio::test]
async fn a_folder_keeps_a_group_for_one_node_and_one_process() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("consensus");
    let env = Env::real();
    let (node, group) = open(&env, &folder, NODE).await.unwrap();
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(folder.join("base")).unwrap().len(), BASE_BYTES);
    group.initialize(&[(NODE, address(NODE))].into()).await.unwrap();
    while group.propose(&Command::write(1, 7)).await.is_err() {
        env.sleep(std::time::Duration::from_millis(10)).await;
    }
    let second = LogPlace::in_folder(&env, &folder).await.err().unwrap();
    assert!(matches!(second, PlaceError::Base(disk::OpenError::Locked { .. })), "{second}");
    shut_down((node, group)).await;

    let OpenError::Log { cause, .. } = open(&env, &folder, NodeId(2)).await.err().unwrap() else {
        panic!("the log is read first")
    };
    assert!(matches!(*cause, LogError::Base(BaseError::ForeignNode { .. })), "{cause}");
    let (node, group) = open(&env, &folder, NODE).await.unwrap();
    while group.look(|store| store.registers.get(&1).copied()) != Some(7) {
        env.sleep(std::time::Duration::from_millis(10)).await;
    }
    shut_down((node, group)).await;
}

#[tokio::test]
async fn a_base_that_was_cut_is_not_begun_anew() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("consensus");
    // Cut short while it was made: zeros.
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("base"), vec![0; 4096]).unwrap();
    let env = Env::real();
    let place = LogPlace::in_folder(&env, &folder).await.unwrap();
    assert_eq!(place.base.size_bytes(), BASE_BYTES);
    drop(place);
    // Cut short later: it holds something.
    std::fs::write(folder.join("base"), vec![1; 4096]).unwrap();
    let place = LogPlace::in_folder(&env, &folder).await.unwrap();
    assert_eq!(place.base.size_bytes(), 4096);
    let refused = Node::open(&env, NODE, &place, SimulatedTransport::new(&env).port(NODE)).await.err().unwrap();
    let OpenError::Log { cause, .. } = refused else { panic!("{refused}") };
    assert!(matches!(*cause, LogError::Base(BaseError::Disk(_))), "{cause}");
}
