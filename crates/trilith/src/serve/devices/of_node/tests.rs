use super::super::tests::{CAPACITY, options};
use super::taken_in;
use ::device::{Device, DeviceConfig};
use disk::{FileDisk, OpenOptions};
use env::Env;
use manager::Manager;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::{DeviceId, DeviceUuid};

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
        taken_in(&self.manager, &self.device, &self.path()).await.unwrap()
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
