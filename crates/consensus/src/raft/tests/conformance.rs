//! openraft's own suite for log storage and state machines, on the shared log.

use std::sync::Arc;

use bytes::Bytes;
use disk::{SimDisk, SimOptions};
use env::Env;
use env::watch;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use wal::RegionStore;

use crate::id::{GroupId, LogIndex, NodeId};
use crate::log::{BASE_BYTES, LogPlace, SharedLog};
use crate::machine::{ErasedMachine, Frozen, MachineError, Reply};
use crate::raft::machine::Machine;
use crate::raft::storage::LogStorage;
use crate::raft::types::Types;

/// Remembers nothing: the suite looks at positions and memberships.
struct Nothing {
    keeps_rows: bool,
}

impl ErasedMachine for Nothing {
    fn apply(&self, _: LogIndex, _: &[u8]) -> Result<Reply, MachineError> {
        Ok(Reply::none())
    }

    fn keeps_rows(&self) -> bool {
        self.keeps_rows
    }

    fn freeze(&self) -> Frozen {
        match self.keeps_rows {
            true => Frozen::Changes(vec![(b"row".to_vec(), Some(b"value".to_vec()))]),
            false => Frozen::Whole(Box::new(Vec::new)),
        }
    }

    fn restore(&self, _: &Bytes) -> Result<(), MachineError> {
        Ok(())
    }

    fn clear(&self) {}

    fn load(&self, _: &[(Vec<u8>, Vec<u8>)]) -> Result<(), MachineError> {
        Ok(())
    }
}

struct Stores {
    env: Env,
    keeps_rows: bool,
}

impl StoreBuilder<Types, LogStorage, Machine> for Stores {
    async fn build(&self) -> Result<((), LogStorage, Machine), StorageError<Types>> {
        let segment_bytes = 1 << 20;
        let disk = Arc::new(SimDisk::new(&self.env, SimOptions { size_bytes: 8 << 20, ..SimOptions::default() }));
        let base = Arc::new(SimDisk::new(&self.env, SimOptions { size_bytes: BASE_BYTES, ..SimOptions::default() }));
        let segments = Arc::new(RegionStore::new(disk, 0, segment_bytes, 8));
        let place = LogPlace::new(segments, base, 8);
        let log = SharedLog::open(&self.env, NodeId(0), &place).await.expect("an empty disk");
        let group = log.group(GroupId(7));
        let (progress, _) = watch::channel(None);
        let machine = Arc::new(Nothing { keeps_rows: self.keeps_rows });
        let machine = Machine::open(group.clone(), machine, &place.rows, progress).await.expect("an empty store");
        Ok(((), LogStorage::new(&self.env, group), machine))
    }
}

#[tokio::test(start_paused = true)]
async fn openraft_suite_for_storage() {
    Suite::test_all(Stores { env: Env::simulated(1), keeps_rows: false }).await.expect("the suite passes");
}

#[tokio::test(start_paused = true)]
async fn openraft_suite_for_storage_of_rows() {
    Suite::test_all(Stores { env: Env::simulated(2), keeps_rows: true }).await.expect("the suite passes");
}
