//! Devices of an image.

use std::sync::Arc;

use types::{DeviceId, DeviceUuid, ImageEpoch, NodeId, Token};

use super::super::machine::Machine;
use super::{ONE, change, copies_on, create, image, open, with_holder, with_image};
use crate::modules::images::limits::{DEVICE_ROOM_BYTES, IMAGE_ROOM_BYTES, MAX_IMAGES_BYTES};
use crate::{
    AcceptLosses, AddDevice, DeviceState, ImageDevice, ImageError, Redundancy, RemoveDevice, SetDeviceIn, SetDeviceOut,
    SetDeviceState, UseDevices, survives,
};

fn devices(numbers: &[u32]) -> Vec<DeviceId> {
    numbers.iter().copied().map(DeviceId).collect()
}

fn use_devices(token: Token, numbers: &[u32]) -> UseDevices {
    UseDevices { id: ONE, token, devices: devices(numbers) }
}

fn out(token: Token, numbers: &[u32], redundancy: u8) -> SetDeviceOut {
    SetDeviceOut { id: ONE, token, devices: devices(numbers), redundancy: copies_on(redundancy), short_host: None }
}

fn back(token: Token, device: u32, redundancy: u8) -> SetDeviceIn {
    SetDeviceIn { id: ONE, token, device: DeviceId(device), redundancy: copies_on(redundancy) }
}

/// Devices with the epochs since which they are out; the epoch; the redundancy.
fn copies(machine: &Machine) -> (Vec<(u32, Option<u64>)>, u64, u8) {
    let image = image(machine, ONE);
    let devices = image.devices.iter().map(|used| (used.device.0, used.out_since.map(|epoch| epoch.0)));
    (devices.collect(), image.epoch.0, image.redundancy.hosts)
}

#[test]
fn devices_are_added_in_sync_once() {
    let (mut machine, token) = with_holder();
    machine.run(use_devices(token, &[2, 0, 2])).unwrap();
    assert_eq!(copies(&machine), (vec![(0, None), (2, None)], 0, 3));
    machine.run(out(token, &[0], 2)).unwrap();
    let used = machine.run(use_devices(token, &[1, 0])).unwrap();
    assert_eq!(copies(&machine), (vec![(0, Some(1)), (1, None), (2, None)], 1, 2), "it is out as before");
    assert_eq!(used.device(DeviceId(0)), Some(&ImageDevice { device: DeviceId(0), out_since: Some(ImageEpoch(1)) }));
    assert_eq!(used.device(DeviceId(3)), None);
    assert_eq!(machine.run(use_devices(token, &[3])), Err(ImageError::NoSuchDevice { device: DeviceId(3) }));
    let (mut machine, token) = with_holder();
    machine.run(SetDeviceState { id: DeviceId(1), state: DeviceState::Draining }).unwrap();
    assert_eq!(machine.run(use_devices(token, &[0, 1])), Err(ImageError::NotWritable { device: DeviceId(1) }));
}

#[test]
fn each_taking_out_begins_an_epoch() {
    let (mut machine, token) = with_holder();
    machine.run(use_devices(token, &[0, 1, 2])).unwrap();
    assert_eq!(machine.run(out(token, &[1], 2)).unwrap().epoch, ImageEpoch(1));
    assert_eq!(machine.run(out(token, &[0, 1], 1)).unwrap().epoch, ImageEpoch(2));
    assert_eq!(copies(&machine), (vec![(0, Some(2)), (1, Some(1)), (2, None)], 2, 1), "one of them was out before");
    assert_eq!(machine.run(out(token, &[2], 1)), Err(ImageError::LastInSync));
    machine.run(back(token, 1, 2)).unwrap();
    assert_eq!(copies(&machine), (vec![(0, Some(2)), (1, None), (2, None)], 2, 2));
    machine.run(out(token, &[1, 2], 1)).expect_err("the last two");
    assert_eq!(machine.run(out(token, &[], 1)).unwrap().epoch, ImageEpoch(3));
    machine.run(back(token, 2, 2)).unwrap();
    assert_eq!(copies(&machine), (vec![(0, Some(2)), (1, None), (2, None)], 3, 2), "the redundancy alone");
    for found in [0, 4] {
        let refused = ImageError::Redundancy { found: copies_on(found), copies: 3 };
        assert_eq!(machine.run(out(token, &[1], found)), Err(refused.clone()));
        assert_eq!(machine.run(back(token, 0, found)), Err(refused));
    }
    let (mut machine, token) = with_holder();
    machine.run(use_devices(token, &[0])).unwrap();
    let not_used = ImageError::NotUsed { device: DeviceId(1) };
    assert_eq!(machine.run(out(token, &[1], 1)), Err(not_used.clone()));
    assert_eq!(machine.run(back(token, 1, 1)), Err(not_used));
}

#[test]
fn a_device_that_is_forgotten_leaves_all_images() {
    let (mut machine, token) = with_holder();
    machine.run(use_devices(token, &[0, 1])).unwrap();
    let other = machine.run(create("two")).unwrap().id;
    let second = machine.run(open(other, 2, None)).unwrap().token;
    machine.run(UseDevices { id: other, token: second, devices: devices(&[1, 2]) }).unwrap();
    machine
        .run(SetDeviceOut { id: other, token: second, devices: devices(&[1]), redundancy: copies_on(1), short_host: None })
        .unwrap();
    machine.run(SetDeviceState { id: DeviceId(1), state: DeviceState::Failed }).unwrap();
    machine.run(RemoveDevice { id: DeviceId(1) }).unwrap();
    let left = [ONE, other].map(|id| image(&machine, id).devices.iter().map(|used| used.device.0).collect::<Vec<_>>());
    assert_eq!(left, [[0], [2]]);
    assert_eq!(machine.0.check(), Ok(()));
    // Of the second image the device was out: nothing of it counted.
    assert_eq!([ONE, other].map(|id| image(&machine, id).redundancy.devices), [2, 1]);
    assert_eq!([ONE, other].map(|id| image(&machine, id).has_losses), [false, false]);
    machine.run(SetDeviceState { id: DeviceId(2), state: DeviceState::Failed }).unwrap();
    machine.run(RemoveDevice { id: DeviceId(2) }).unwrap();
    assert_eq!([ONE, other].map(|id| image(&machine, id).has_losses), [false, true]);
    assert_eq!(machine.run(open(other, 1, Some(second))).map(drop), Err(ImageError::Losses), "its parts would read as zeros");
    machine.run(AcceptLosses { id: other }).unwrap();
    machine.run(open(other, 1, Some(second))).unwrap();
}

#[test]
fn devices_may_be_silent_as_long_as_each_blob_has_another_copy() {
    // Two devices on each host; device 9 is on none.
    let host_of = |device: u32| (DeviceId(device), (device != 9).then_some(NodeId(device / 2)));
    let check = |hosts, devices, short: &[NodeId], silent: &[u32]| {
        survives(Redundancy { hosts, devices }, short, silent.iter().map(|device| host_of(*device)))
    };
    assert!(check(1, 1, &[], &[]));
    assert!(!check(1, 1, &[], &[2]));
    assert!(check(2, 2, &[], &[2, 3]), "both on one host");
    assert!(!check(2, 2, &[], &[2, 4]));
    assert!(check(1, 2, &[], &[2]), "another device of the host has a copy");
    assert!(check(1, 3, &[], &[2, 3]));
    assert!(!check(2, 2, &[], &[2, 9]));
    assert!(check(1, 1, &[NodeId(1)], &[2]), "besides that host each blob has a copy");
    assert!(!check(1, 1, &[NodeId(1)], &[2, 4]));
}

#[test]
fn all_devices_of_one_host_can_be_given_up_where_copies_are_on_two() {
    let all = [0, 1, 2, 3];
    let lose = |copies: u8, redundancy: Redundancy, lost: &[u32]| {
        let (mut machine, token) = with_holder();
        // Two devices on each of two hosts.
        let add = AddDevice { uuid: DeviceUuid([3; 16]), path: "/dev/x".to_owned(), capacity_bytes: 9 };
        machine.run(add).unwrap();
        for device in all {
            let record = machine.0.devices.records_mut().get_mut(&DeviceId(device)).unwrap();
            Arc::make_mut(record).node = Some(NodeId(1 + device / 2));
        }
        machine.run(use_devices(token, &all)).unwrap();
        change(&mut machine, ONE, |image| (image.copies, image.redundancy) = (copies, redundancy));
        for &device in lost {
            machine.run(SetDeviceState { id: DeviceId(device), state: DeviceState::Failed }).unwrap();
            machine.run(RemoveDevice { id: DeviceId(device) }).unwrap();
            assert_eq!(machine.0.check(), Ok(()));
        }
        let image = image(&machine, ONE);
        (image.has_losses, image.redundancy.hosts, image.redundancy.devices)
    };
    assert_eq!(lose(2, copies_on(2), &[0, 1]), (false, 1, 1), "each blob is on the other host");
    assert_eq!(lose(2, copies_on(2), &[0, 2]), (true, 1, 1));
    assert_eq!(lose(2, copies_on(2), &[0, 1, 2]), (true, 1, 1));
    assert_eq!(lose(2, Redundancy { hosts: 1, devices: 2 }, &[0, 1]), (true, 1, 1), "both copies may be on one host");
    assert_eq!(lose(3, Redundancy { hosts: 2, devices: 3 }, &[0, 2]), (false, 1, 1));
    assert_eq!(lose(3, Redundancy { hosts: 2, devices: 3 }, &[0, 2, 1]), (true, 1, 1), "copies on 0, 1 and 2 are lost");
}

/// What goes out must find room, so there is room for that from the beginning.
#[test]
fn devices_have_room_to_go_out() {
    let (mut machine, token) = with_holder();
    let most = (MAX_IMAGES_BYTES - IMAGE_ROOM_BYTES) / DEVICE_ROOM_BYTES;
    let many = (3..2 + most as u32).map(|number| ImageDevice { device: DeviceId(number), out_since: None }).collect();
    change(&mut machine, ONE, |image| image.devices = many);
    assert_eq!(machine.run(use_devices(token, &[0, 1])), Err(ImageError::Room));
    machine.run(use_devices(token, &[0])).unwrap();
    assert_eq!(machine.run(use_devices(token, &[1])), Err(ImageError::Room));
    machine.run(use_devices(token, &[0])).unwrap();
    machine.run(out(token, &[0], 1)).unwrap();
    let mut machine = with_image();
    change(&mut machine, ONE, |image| {
        let epoch = ImageEpoch(u64::MAX);
        image.devices = vec![ImageDevice { device: DeviceId(u32::MAX), out_since: Some(epoch) }];
    });
    assert_eq!(postcard::to_allocvec(&image(&machine, ONE).devices[0]).unwrap().len(), DEVICE_ROOM_BYTES);
}

/// One device of a host was taken out, then the host is gone with the other.
#[test]
fn a_host_may_go_whole_that_each_blob_does_without() {
    for (short_host, has_losses) in [(Some(NodeId(1)), false), (None, true)] {
        let (mut machine, token) = with_holder();
        for device in [0, 1, 2] {
            let record = machine.0.devices.records_mut().get_mut(&DeviceId(device)).unwrap();
            Arc::make_mut(record).node = Some(NodeId(1 + device / 2));
        }
        machine.run(use_devices(token, &[0, 1, 2])).unwrap();
        change(&mut machine, ONE, |image| (image.copies, image.redundancy) = (2, copies_on(2)));
        machine.run(SetDeviceOut { short_host, ..out(token, &[0], 1) }).unwrap();
        let other = (DeviceId(1), Some(NodeId(1)));
        assert_eq!(image(&machine, ONE).survives([other]), !has_losses);
        machine.run(SetDeviceState { id: DeviceId(1), state: DeviceState::Failed }).unwrap();
        machine.run(RemoveDevice { id: DeviceId(1) }).unwrap();
        assert_eq!(machine.0.check(), Ok(()));
        assert_eq!(image(&machine, ONE).has_losses, has_losses);
    }
}
