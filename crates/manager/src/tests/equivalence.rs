//! The same commands give the same state, whichever way they take: one by one in memory, through the shell, through a restart
//! at any point, through the store's records, through a copy.

use std::sync::Arc;

use env::Env;
use kv::{Kv, MemoryKv};
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert_eq, proptest};
use wal::RegionStore;

use super::replicated::single_member;
use super::workload::random_command;
use crate::{Command, CommandIndex, Manager, Snapshot, apply};

const SEGMENT_BYTES: u64 = 32 * 1024;
const SEGMENT_COUNT: usize = 4;

fn cases() -> u32 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 5_000 } else { 150 }
}

/// The state after commands 1 to `commands.len()`.
pub(super) fn fold(commands: &[Command]) -> Snapshot {
    let mut state = Snapshot::default();
    for (command, index) in commands.iter().zip(1..) {
        apply(CommandIndex(index), command, &mut state);
    }
    state
}

/// Runs a sequence through a manager that is restarted and persisted now and then.
async fn run_with_restarts(seed: u64, length: u64) -> (Vec<Command>, Snapshot, Snapshot) {
    let env = Env::simulated(seed);
    let size_bytes = SEGMENT_BYTES * SEGMENT_COUNT as u64;
    let options = disk::SimOptions { size_bytes, capacity_bytes: Some(size_bytes), seed, ..Default::default() };
    let mut disk = disk::SimDisk::new(&env, options);
    let mut kv = Arc::new(MemoryKv::new());
    let open = async |disk: &disk::SimDisk, kv: &Arc<MemoryKv>| {
        let store = RegionStore::new(Arc::new(disk.clone()), 0, SEGMENT_BYTES, SEGMENT_COUNT);
        Manager::open_on(&env, Arc::new(store), Arc::clone(kv) as Arc<dyn Kv>).await.unwrap()
    };
    let mut manager = open(&disk, &kv).await;
    let mut commands = Vec::new();
    for _ in 0..length {
        let command = random_command(&env);
        manager.propose(command.clone()).await.unwrap();
        commands.push(command);
        if env.random_below(8) == 0 {
            manager.persist().await.unwrap();
        }
        if env.random_below(10) == 0 {
            let survivors = env.random_below(kv.pending_batches() as u64 + 1) as usize;
            drop(manager);
            disk = disk.crash();
            kv = Arc::new(kv.crash_keeping(survivors));
            manager = open(&disk, &kv).await;
        }
    }
    let live = Snapshot::clone(&manager.snapshot());
    let manager = open(&disk.crash(), &Arc::new(kv.crash())).await;
    (commands, live, Snapshot::clone(&manager.snapshot()))
}

#[tokio::test(start_paused = true)]
async fn a_group_of_consensus_changes_nothing() {
    for seed in 0..8 {
        let env = Env::simulated(seed);
        let manager = single_member(&env).await;
        let commands: Vec<_> = (0..100).map(|_| random_command(&env)).collect();
        for command in &commands {
            manager.propose(command.clone()).await.unwrap();
        }
        assert_eq!(*manager.snapshot(), fold(&commands), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn restarts_change_nothing(seed in any::<u64>(), length in 1u64..80) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (commands, live, restarted) = runtime.block_on(run_with_restarts(seed, length));
        let expected = fold(&commands);
        prop_assert_eq!(&live, &expected);
        prop_assert_eq!(&restarted, &expected);
    }

    #[test]
    fn commands_and_copies_survive_their_bytes(seed in any::<u64>(), length in 0usize..120) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let env = Env::simulated(seed);
        let commands: Vec<_> = (0..length).map(|_| random_command(&env)).collect();
        for command in &commands {
            prop_assert_eq!(&Command::decode(&command.encode()).unwrap(), command);
        }
        let state = fold(&commands);
        let copy = state.export();
        prop_assert_eq!(&Snapshot::from_export(&copy).unwrap(), &state);
        prop_assert_eq!(&Snapshot::from_export(&copy).unwrap().export(), &copy);
    }

    /// No flipped bit in a copy goes unnoticed.
    #[test]
    fn a_bad_copy_is_refused(seed in any::<u64>(), at in any::<u64>(), bit in 0u8..8) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let env = Env::simulated(seed);
        let commands: Vec<_> = (0..20).map(|_| random_command(&env)).collect();
        let mut copy = fold(&commands).export();
        let at = (at % copy.len() as u64) as usize;
        copy[at] ^= 1 << bit;
        proptest::prop_assert!(Snapshot::from_export(&copy).is_err());
    }
}
