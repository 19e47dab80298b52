use super::super::NamedDisk;
use super::super::tests::{CAPACITY, formatted, named, options};
use super::{Place, new_ones_last};
use ::device::{Device, DeviceConfig};
use disk::{FileDisk, OpenOptions};
use env::Env;
use manager::{DeviceState, Manager, RegisterNode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::{DeviceId, DeviceUuid, NodeId, NodeIdentity};

/// A manager, and a device that was formatted under some number.
struct Scene {
    folder: tempfile::TempDir,
    manager: Manager,
    device: Device,
}

impl Scene {
    async fn with_device(number: u32) -> Scene {
        let (env, folder) = (Env::real_with_cores(1), tempfile::tempdir().unwrap());
        let manager = Manager::open(&env, &folder.path().join("manager")).await.unwrap();
        let path = folder.path().join("disk");
        let disk = FileDisk::open(&path, &OpenOptions { create: true, capacity_bytes: Some(CAPACITY), direct: true }).unwrap();
        Device::format(&disk, &env, &options(number)).await.unwrap();
        let device = Device::open(Arc::new(disk), &env, DeviceConfig::default()).await.unwrap();
        Scene { folder, manager, device }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    async fn is_taken_in(&self) -> bool {
        self.is_taken_in_with(&[]).await
    }

    /// The same, with other devices on the node's disks.
    async fn is_taken_in_with(&self, here: &[DeviceUuid]) -> bool {
        let (path, node) = (self.path(), NodeId(1));
        Place { node, path: &path, here }.taken_in(&self.manager, &self.device).await.unwrap()
    }

    /// Device 0, which node 1 had at the path of this one.
    async fn add_former(&self) -> DeviceUuid {
        let register = RegisterNode {
            identity: NodeIdentity([3; 16]),
            name: "node".to_owned(),
            address: "here:1".to_owned(),
            admin_address: String::new(),
            s3_address: String::new(),
            host: String::new(),
            rack: String::new(),
            zone: String::new(),
            version: String::new(),
            joined_ms: 0,
        };
        assert_eq!(self.manager.register_node(register).await.unwrap().id, NodeId(1));
        let path = self.path().display().to_string();
        let former = self.manager.add_device(DeviceUuid([8; 16]), &path, CAPACITY).await.unwrap();
        self.manager.place_device(former.id, Some(NodeId(1))).await.unwrap();
        former.uuid
    }

    fn state_of(&self, device: u32) -> DeviceState {
        self.manager.snapshot().device(DeviceId(device)).unwrap().state
    }

    fn known(&self) -> Vec<u32> {
        self.manager.snapshot().devices().map(|record| record.id.0).collect()
    }

    async fn add_another(&self) {
        self.manager.add_device(DeviceUuid([9; 16]), "elsewhere", CAPACITY).await.unwrap();
    }
}

#[tokio::test]
async fn a_device_is_taken_in_under_its_own_number() {
    let scene = Scene::with_device(0).await;
    assert!(scene.is_taken_in().await && scene.is_taken_in().await);
    let state = scene.manager.snapshot();
    assert_eq!((scene.known(), Path::new(&state.device(DeviceId(0)).unwrap().path)), (vec![0], &*scene.path()));
}

/// A device that was forgotten comes back as often as its node is started: that uses up no numbers.
#[tokio::test]
async fn a_device_of_another_number_is_refused_without_a_trace() {
    let scene = Scene::with_device(1).await;
    for _ in 0..2 {
        assert!(!scene.is_taken_in().await);
        assert_eq!((scene.known(), scene.manager.snapshot().next_device()), (vec![], DeviceId(0)));
    }
    scene.add_another().await;
    assert!(scene.is_taken_in().await, "the next number is its own");
    assert_eq!(scene.known(), [0, 1]);
}

/// A start that asked for a number, and ended before it had forgotten it, is followed by another one.
#[tokio::test]
async fn a_number_that_an_interrupted_start_has_left_is_not_taken_for_the_device() {
    let scene = Scene::with_device(0).await;
    scene.add_another().await;
    let wrong = scene.manager.add_device(scene.device.uuid(), "disk", CAPACITY).await.unwrap();
    assert_eq!(wrong.id, DeviceId(1));
    assert!(!scene.is_taken_in().await, "0 is another device's number");
    assert_eq!(scene.known(), [0]);
    assert!(!scene.is_taken_in().await);
}

#[tokio::test]
async fn a_new_device_takes_the_place_of_the_one_that_is_lost() {
    let scene = Scene::with_device(1).await;
    scene.add_former().await;
    assert!(scene.is_taken_in().await);
    assert_eq!((scene.state_of(0), scene.state_of(1)), (DeviceState::Replaced, DeviceState::Active));
}

/// The system's names of disks have moved: the good one was given up for the new one, and forgotten before it was opened.
#[tokio::test]
async fn a_device_that_is_under_another_path_now_is_not_replaced() {
    let scene = Scene::with_device(1).await;
    let former = scene.add_former().await;
    assert!(scene.is_taken_in_with(&[former]).await);
    assert_eq!((scene.state_of(0), scene.state_of(1)), (DeviceState::Active, DeviceState::Active));
}

/// What can't be opened ends the start before another one is given up.
#[tokio::test]
async fn new_devices_come_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let absent = NamedDisk { path: path("absent"), disk: None };
    let disks = vec![absent, named(&path("empty")), formatted(&path("known"), 0).await];
    let ordered = new_ones_last(disks).await.unwrap();
    let names: Vec<_> = ordered.iter().map(|(named, _)| named.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["known", "absent", "empty"]);
}
