use super::{NamedDisk, identities};
use ::device::{Device, FormatOptions};
use disk::{FileDisk, OpenOptions};
use env::Env;
use std::path::Path;
use std::sync::Arc;
use types::{CellId, ClusterId, DeviceId};

pub(super) const CAPACITY: u64 = 200 << 20;

pub(super) fn named(path: &Path) -> NamedDisk {
    let options = OpenOptions { create: true, capacity_bytes: Some(CAPACITY), direct: true };
    NamedDisk { path: path.to_owned(), disk: Some(Arc::new(FileDisk::open(path, &options).unwrap())) }
}

/// How a device of this number is made.
pub(super) fn options(number: u32) -> FormatOptions {
    FormatOptions {
        cluster: ClusterId([7; 16]),
        device: DeviceId(number),
        cell: CellId(1),
        zone_bytes: None,
        capacity_bytes: Some(CAPACITY),
        overwrite: false,
    }
}

pub(super) async fn formatted(path: &Path, number: u32) -> NamedDisk {
    let named = named(path);
    Device::format(&**named.disk.as_ref().unwrap(), &Env::real_with_cores(1), &options(number)).await.unwrap();
    named
}

#[tokio::test]
async fn a_disk_and_its_copy_are_not_served_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (first, second) = (formatted(&path("first"), 0).await, formatted(&path("second"), 1).await);
    let empty = named(&path("empty"));
    std::fs::copy(path("first"), path("copy")).unwrap();
    let copy = named(&path("copy"));
    let all = [first, second, empty];
    assert_eq!(identities(&all).await.unwrap().len(), 2);
    let [first, second, empty] = all;
    let refused = identities(&[first, second, empty, copy]).await.unwrap_err().to_string();
    assert!(refused.contains("/first and ") && refused.contains("/copy are one device, number 0"), "{refused}");
}
