//! The state machine alone: what each command does and refuses.

use std::sync::Arc;

use types::limits::DEVICE_NUMBERS;
use types::{BucketId, CellId, ClusterId, DeviceId, DeviceUuid, Epoch, Generation, Token};

use crate::command::apply_noting;
use crate::limits::{MAX_CONFIG_VALUE_BYTES, MAX_POLICIES_BYTES, MAX_POLICY_BYTES};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Snapshot};
use crate::{
    AddCredential, AddDevice, BucketEngine, BucketError, BucketRecord, BucketState, ClusterError, ConfigError, CreateBucket,
    CreateBucketError, CredentialError, DeviceError, DeviceState, EtagMode, InitCluster, InstallManifest, InstallManifestError,
    InstallReplicaTable, InstallReplicaTableError, InvalidBucketName, MarkBucketDeleting, RaiseFormatVersion, ReactivateBucket,
    Removal, RemoveBucket, RemoveCredential, RemoveDevice, SetBucketPolicy, SetConfig, SetDeviceState, SetRootCredential,
    TakeToken, UpdateDevice,
};

#[derive(Default)]
pub(super) struct Machine(pub(super) Snapshot);

impl Machine {
    /// Applies the next command and checks that a refused one changed nothing but the index.
    pub(super) fn run<O: Operation>(&mut self, operation: O) -> Result<O::Reply, O::Refusal> {
        let before = self.0.clone();
        let index = CommandIndex(before.applied().0 + 1);
        let mut touched = Vec::new();
        let outcome = apply_noting(index, &mut touched, &mut self.0, |edit| operation.apply(index, edit));
        if outcome.is_err() {
            assert!(touched.is_empty(), "{touched:?}");
            assert_eq!(Snapshot { applied: before.applied, ..self.0.clone() }, before);
        }
        outcome
    }
}

fn create(name: &str, owner: &str) -> CreateBucket {
    let (name, owner) = (name.to_owned(), owner.to_owned());
    CreateBucket { name, owner, engine: BucketEngine::Volume, etag: EtagMode::Fast, created_ms: 77 }
}

/// The first attempt has seen the bucket empty; then a second one gives up, somebody writes, and a third one begins.
#[test]
fn an_attempt_to_remove_a_bucket_ends_with_the_next() {
    let mut machine = Machine::default();
    let id = machine.run(create("photos", "alice")).unwrap().id;
    let name = "photos".to_owned();
    let mark = MarkBucketDeleting { name: name.clone(), id };
    let first = machine.run(mark.clone()).unwrap();
    let second = machine.run(mark.clone()).unwrap();
    assert_ne!(first, second);
    assert_eq!(machine.run(ReactivateBucket { name: name.clone(), id, removal: first }), Err(BucketError::OtherRemoval));
    machine.run(ReactivateBucket { name: name.clone(), id, removal: second }).unwrap();
    assert_eq!(machine.run(RemoveBucket { name: name.clone(), id, removal: first }), Err(BucketError::NotDeleting));
    let third = machine.run(mark).unwrap();
    for earlier in [first, second] {
        let removal = RemoveBucket { name: name.clone(), id, removal: earlier };
        assert_eq!(machine.run(removal), Err(BucketError::OtherRemoval));
    }
    machine.run(RemoveBucket { name, id, removal: third }).unwrap();
    assert_eq!(machine.0.bucket("photos"), None);
}

#[test]
fn a_bucket_from_birth_to_birth() {
    let mut machine = Machine::default();
    let made = machine.run(create("photos", "alice")).unwrap();
    assert_eq!((made.id, made.created_ms, made.engine, made.etag), (BucketId(1), 77, BucketEngine::Volume, EtagMode::Fast));
    assert_eq!(machine.run(create("photos", "alice")), Err(CreateBucketError::AlreadyOwnedByYou));
    assert_eq!(machine.run(create("photos", "bob")), Err(CreateBucketError::AlreadyExists));
    assert_eq!(machine.run(create("ab", "bob")), Err(CreateBucketError::Name(InvalidBucketName::Length { found: 2 })));

    let (name, id) = ("photos".to_owned(), made.id);
    assert_eq!(machine.run(RemoveBucket { name: name.clone(), id, removal: Removal(0) }), Err(BucketError::NotDeleting));
    let removal = machine.run(MarkBucketDeleting { name: name.clone(), id }).unwrap();
    assert_eq!(machine.0.bucket("photos").unwrap().state, BucketState::Deleting(removal));
    assert_eq!(machine.run(create("photos", "alice")), Err(CreateBucketError::Deleting));
    let policy = SetBucketPolicy { name: name.clone(), id, policy: None };
    assert_eq!(machine.run(policy), Err(BucketError::Deleting));
    assert_eq!(machine.run(ReactivateBucket { name: name.clone(), id, removal }).unwrap().state, BucketState::Active);
    let removal = machine.run(MarkBucketDeleting { name: name.clone(), id }).unwrap();
    machine.run(RemoveBucket { name: name.clone(), id, removal }).unwrap();
    assert_eq!(machine.0.bucket("photos"), None);

    let again = machine.run(create("photos", "bob")).unwrap();
    assert_eq!(again.id, BucketId(2), "another incarnation");
    // Whoever still means the first one reaches nothing.
    assert_eq!(machine.run(MarkBucketDeleting { name: name.clone(), id }), Err(BucketError::NotFound));
    assert_eq!(machine.run(RemoveBucket { name, id, removal }), Err(BucketError::NotFound));
}

#[test]
fn policies() {
    let mut machine = Machine::default();
    let id = machine.run(create("photos", "alice")).unwrap().id;
    let set = |policy| SetBucketPolicy { name: "photos".to_owned(), id, policy };
    assert_eq!(machine.run(set(Some(vec![b' '; MAX_POLICY_BYTES]))).unwrap().policy.as_ref().unwrap().len(), MAX_POLICY_BYTES);
    let too_long = set(Some(vec![b' '; MAX_POLICY_BYTES + 1]));
    assert_eq!(machine.run(too_long), Err(BucketError::PolicyLength { found: MAX_POLICY_BYTES + 1 }));
    assert_eq!(machine.run(set(None)).unwrap().policy, None);
}

/// With a state that has outgrown its log no command was taken any more, also none that makes it smaller.
#[test]
fn all_policies_together_have_a_limit() {
    let mut machine = Machine::default();
    let ids = ["one", "two"].map(|name| machine.run(create(name, "alice")).unwrap().id);
    // As if it were that of thousands of buckets.
    let others = machine.0.bucket("one").unwrap().as_ref().clone();
    let long = BucketRecord { policy: Some(vec![b' '; MAX_POLICIES_BYTES - 10]), ..others };
    machine.0.buckets.records_mut().insert("one".to_owned(), Arc::new(long));
    let set = |bytes: usize| SetBucketPolicy { name: "two".to_owned(), id: ids[1], policy: Some(vec![b' '; bytes]) };
    assert_eq!(machine.run(set(11)), Err(BucketError::Policies));
    machine.run(set(10)).unwrap();
    machine.run(set(9)).unwrap();
    machine.run(SetBucketPolicy { name: "one".to_owned(), id: ids[0], policy: None }).unwrap();
    machine.run(set(11)).unwrap();
}

#[test]
fn devices_get_numbers_that_never_come_back() {
    let mut machine = Machine::default();
    let add = |uuid| AddDevice { uuid: DeviceUuid([uuid; 16]), path: "/dev/x".to_owned(), capacity_bytes: 9 };
    let id = machine.run(add(1)).unwrap().id;
    assert_eq!(id, DeviceId(0));
    assert_eq!(machine.run(add(1)), Err(DeviceError::AlreadyExists { id }));
    assert_eq!(machine.run(RemoveDevice { id }), Err(DeviceError::InUse { id }));
    let update = UpdateDevice { id, path: "/dev/y".to_owned(), capacity_bytes: 10 };
    assert_eq!(machine.run(update).unwrap().path, "/dev/y");
    machine.run(SetDeviceState { id, state: DeviceState::Failed }).unwrap();
    machine.run(RemoveDevice { id }).unwrap();
    assert_eq!(machine.run(RemoveDevice { id }), Err(DeviceError::NotFound { id }));
    assert_eq!(machine.run(add(1)).unwrap().id, DeviceId(1));
    machine.0.devices.next = u64::from(DEVICE_NUMBERS) - 1;
    assert_eq!(machine.run(add(2)).unwrap().id, DeviceId(DEVICE_NUMBERS - 1));
    assert_eq!(machine.run(add(3)), Err(DeviceError::NoNumber));
}

#[test]
fn credentials_and_the_one_root() {
    let mut machine = Machine::default();
    let root = |key: &str| SetRootCredential { access_key: key.to_owned(), secret: "12345678".to_owned() };
    let add = |key: &str, user: &str| {
        let (access_key, user) = (key.to_owned(), user.to_owned());
        AddCredential { access_key, secret: "12345678".to_owned(), user }
    };
    let remove = |key: &str| RemoveCredential { access_key: key.to_owned() };
    machine.run(root("root1")).unwrap();
    machine.run(add("alice1", "alice")).unwrap();
    assert_eq!(machine.run(add("alice1", "bob")), Err(CredentialError::AlreadyExists));
    assert_eq!(machine.run(add("root1", "bob")), Err(CredentialError::AlreadyExists));
    assert_eq!(machine.run(add("sneaky", "root")), Err(CredentialError::Root));
    assert_eq!(machine.run(root("alice1")), Err(CredentialError::AlreadyExists), "or a user's key would become root's");
    assert_eq!(machine.run(remove("root1")), Err(CredentialError::Root));
    machine.run(root("root2")).unwrap();
    let keys: Vec<_> = machine.0.credentials().iter().map(|credential| credential.access_key.clone()).collect();
    assert_eq!(keys, ["alice1", "root2"]);
    machine.run(remove("alice1")).unwrap();
    assert_eq!(machine.run(remove("alice1")), Err(CredentialError::NotFound));
}

#[test]
fn manifests_are_compared_and_swapped() {
    let mut machine = Machine::default();
    let install = |cell, expected, epoch| {
        let (cell, expected, epoch) = (CellId(cell), Epoch(expected), Epoch(epoch));
        InstallManifest { cell, expected, epoch, bytes: vec![epoch.0 as u8] }
    };
    let stale = |expected, found| Err(InstallManifestError::Stale { expected: Epoch(expected), found: Epoch(found) });
    assert_eq!(machine.run(install(0, 1, 2)), stale(1, 0));
    machine.run(install(0, 0, 2)).unwrap();
    assert_eq!(machine.run(install(0, 0, 3)), stale(0, 2));
    machine.run(install(0, 2, 2)).unwrap();
    machine.run(install(0, 2, 4)).unwrap();
    assert_eq!(machine.run(install(0, 2, 3)), stale(2, 4));
    let backwards = InstallManifestError::Backwards { expected: Epoch(4), epoch: Epoch(3) };
    assert_eq!(machine.run(install(0, 4, 3)), Err(backwards));
    machine.run(install(7, 0, 1)).unwrap();
    let epochs: Vec<_> = machine.0.manifests().map(|(cell, manifest)| (cell.0, manifest.epoch.0)).collect();
    assert_eq!(epochs, [(0, 4), (7, 1)]);
}

#[test]
fn a_table_generation_is_used_once() {
    let mut machine = Machine::default();
    let install = |expected: Option<u32>, generation| {
        let (expected, generation) = (expected.map(Generation), Generation(generation));
        InstallReplicaTable { expected, generation, bytes: vec![generation.0 as u8] }
    };
    machine.run(install(None, 1)).unwrap();
    let stale = InstallReplicaTableError::Stale { expected: None, found: Some(Generation(1)) };
    assert_eq!(machine.run(install(None, 2)), Err(stale));
    let same = InstallReplicaTableError::Backwards { expected: Some(Generation(1)), generation: Generation(1) };
    assert_eq!(machine.run(install(Some(1), 1)), Err(same));
    machine.run(install(Some(1), 2)).unwrap();
    assert_eq!(machine.0.replica_table().unwrap().bytes, [2]);
}

#[test]
fn tokens_only_rise() {
    let mut machine = Machine::default();
    assert_eq!(machine.run(TakeToken {}).unwrap(), Token(1));
    machine.run(create("photos", "alice")).unwrap();
    assert_eq!(machine.run(TakeToken {}).unwrap(), Token(3));
}

#[test]
fn the_cluster_and_its_configuration() {
    let mut machine = Machine::default();
    let raise = |format_version| RaiseFormatVersion { format_version };
    assert_eq!(machine.run(raise(2)), Err(ClusterError::NotInitialised));
    let init = |id| InitCluster { id: ClusterId([id; 16]), format_version: 1, created_ms: 5 };
    machine.run(init(1)).unwrap();
    assert_eq!(machine.run(init(2)), Err(ClusterError::AlreadyInitialised { found: ClusterId([1; 16]) }));
    assert_eq!(machine.run(raise(3)).unwrap().format_version, 3);
    assert_eq!(machine.run(raise(2)), Err(ClusterError::Backwards { found: 3, wanted: 2 }));

    let set = |key: &str, value: Option<String>| SetConfig { key: key.to_owned(), value };
    machine.run(set("region", Some("eu".to_owned()))).unwrap();
    assert_eq!(machine.0.config("region"), Some("eu"));
    assert_eq!(machine.run(set("", None)), Err(ConfigError::KeyLength { found: 0 }));
    let found = MAX_CONFIG_VALUE_BYTES + 1;
    assert_eq!(machine.run(set("region", Some("x".repeat(found)))), Err(ConfigError::ValueLength { found }));
    machine.run(set("region", None)).unwrap();
    assert_eq!(machine.0.config_entries().count(), 0);
}
