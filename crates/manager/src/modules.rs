//! The modules of the manager: one for each subject that it keeps, and the list of them.
//!
//! A module is everything about its subject: the records with their tags, keys, limits and checks ([`crate::kind::Record`]), the commands
//! ([`crate::operation::Operation`]), what readers ask of a [`crate::Snapshot`], and what callers ask of a [`crate::Manager`]. A new one is
//! a file, its `pub mod` line here, and a line of the list below. Nothing else knows the kinds.

pub mod bucket;
pub mod cell;
pub mod chunks;
pub mod cluster;
pub mod credential;
pub mod device;
pub mod files;
pub mod groups;
pub mod images;
pub mod log;
pub mod node;
pub mod placements;

use serde::{Deserialize, Serialize};

use crate::entry::{self, EntryError, EntryKey};
use crate::kind::{FIRST_TAG, Kept, Record, Table};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, check_number};

/// The commands of one module, by number: a new one goes last.
macro_rules! commands {
    ($module:ident, $(#[$about:meta])* $name:ident: $($operation:ident),* $(,)?) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[allow(clippy::large_enum_variant, reason = "commands are few in memory, and a module may have a large and a small one")]
        pub enum $name {
            $($operation($operation)),*
        }

        $(impl From<$operation> for crate::Command {
            fn from(operation: $operation) -> crate::Command {
                crate::Command::$module($name::$operation(operation))
            }
        })*

        impl $name {
            /// The kinds of commands, each at the place that its number says.
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$(stringify!($operation)),*];

            /// Carries out a command whose proposer is gone, or is another member. True if it was not refused.
            pub(crate) fn carry_out(
                &self,
                index: crate::CommandIndex,
                edit: &mut crate::snapshot::Edit<'_>,
            ) -> bool {
                match self {
                    $($name::$operation(operation) => crate::operation::Operation::apply(operation, index, edit).is_ok()),*
                }
            }
        }
    };
}
pub(crate) use commands;

macro_rules! modules {
    ($($module:ident($commands:ty) { $($table:ident: $record:ty),* $(,)? })*) => {
        /// One entry of the manager's log: the module and its command.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Command {
            $($module($commands)),*
        }

        impl Command {
            /// The modules, each at the place that its number says, with their commands.
            #[cfg(test)]
            pub(crate) const NAMES: &[(&str, &[&str])] = &[$((stringify!($module), <$commands>::NAMES)),*];

            /// Carries out a command whose proposer is gone, or is another member. True if it was not refused.
            pub(crate) fn carry_out(&self, index: CommandIndex, edit: &mut Edit<'_>) -> bool {
                match self {
                    $(Command::$module(command) => command.carry_out(index, edit)),*
                }
            }
        }

        /// The manager's state after one command. Immutable; holding one keeps the moment.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            pub(crate) applied: CommandIndex,
            $($(pub(crate) $table: Table<$record>,)*)*
        }

        $($(impl Kept for $record {
            fn table(state: &Snapshot) -> &Table<Self> {
                &state.$table
            }

            fn table_mut(state: &mut Snapshot) -> &mut Table<Self> {
                &mut state.$table
            }
        })*)*

        /// The kinds of records by their tags.
        #[cfg(test)]
        pub(crate) const KINDS: &[(u8, &str)] = &[$($((<$record>::TAG, <$record>::NAME)),*),*];

        /// The entries of all kinds.
        pub(crate) fn all_tables(state: &Snapshot, entries: &mut Vec<(EntryKey, Vec<u8>)>) {
            $($(entry::of_table(&state.$table, entries);)*)*
        }

        /// Takes a record in; none if no kind has its tag.
        pub(crate) fn load_record(state: &mut Snapshot, tag: u8, at: &[u8], value: &[u8]) -> Option<Result<(), EntryError>> {
            match tag {
                $($(<$record>::TAG => Some(entry::load_as::<$record>(state, at, value)),)*)*
                _ => None,
            }
        }

        /// A record's bytes; none if the state does not have it.
        pub(crate) fn value_of(state: &Snapshot, tag: u8, key: &[u8]) -> Option<Vec<u8>> {
            match tag {
                $($(<$record>::TAG => entry::value_in(&state.$table, key),)*)*
                _ => None,
            }
        }

        /// What a kind with numbers gives out next.
        pub(crate) fn next_number(state: &Snapshot, tag: u8) -> Option<u64> {
            match tag {
                $($(<$record>::TAG => <$record>::NUMBERS.map(|_| state.$table.next),)*)*
                _ => None,
            }
        }

        /// As [`next_number`], to be changed.
        pub(crate) fn next_number_mut(state: &mut Snapshot, tag: u8) -> Option<&mut u64> {
            match tag {
                $($(<$record>::TAG => <$record>::NUMBERS.map(|_| &mut state.$table.next),)*)*
                _ => None,
            }
        }

        /// Whether all records can have come about.
        pub(crate) fn check_tables(state: &Snapshot) -> Result<(), ImpossibleState> {
            $($(check_table::<$record>(state)?;)*)*
            Ok(())
        }

        /// As [`Record::skip_lost`], of all kinds.
        pub(crate) fn skip_lost(state: &mut Snapshot) {
            $($(skip_table(&mut state.$table);)*)*
        }

        /// A device is forgotten: what the kinds know of it goes with it.
        pub(crate) fn forget_device(edit: &mut Edit<'_>, device: &device::DeviceRecord) {
            $($(<$record>::forget_device(edit, device);)*)*
        }

        /// Whether a record of some kind counts on a placed group.
        pub(crate) fn needs_group(state: &Snapshot, key: groups::GroupKey) -> bool {
            $($(<$record>::needs_group(state, key))||*)||*
        }

        const _: () = {
            let tags = [$($(<$record>::TAG),*),*];
            let mut at = 0;
            while at < tags.len() {
                assert!(tags[at] >= FIRST_TAG, "a tag that entries of no kind have");
                let mut other = at + 1;
                while other < tags.len() {
                    assert!(tags[at] != tags[other], "two kinds with one tag");
                    other += 1;
                }
                at += 1;
            }
        };
    };
}

// A module's place is its number in commands: a new one goes last.
modules! {
    Cluster(cluster::ClusterCommand) { clusters: cluster::ClusterRecord, settings: cluster::Setting }
    Device(device::DeviceCommand) { devices: device::DeviceRecord }
    Bucket(bucket::BucketCommand) { buckets: bucket::BucketRecord }
    Credential(credential::CredentialCommand) { credentials: credential::Credential }
    Log(log::LogCommand) { manifests: log::ManifestRecord, replica_tables: log::ReplicaTableRecord, starts: log::Starts }
    Node(node::NodeCommand) { nodes: node::NodeRecord }
    Cell(cell::CellCommand) { cells: cell::CellRecord }
    Groups(groups::GroupCommand) { groups: groups::GroupRecord }
    Chunks(chunks::ChunkCommand) { shards: chunks::ShardRecord, volumes: chunks::VolumeRecord }
    Images(images::ImageCommand) { images: images::ImageRecord }
    Files(files::FileCommand) { file_volumes: files::FileVolumeRecord }
    Placements(placements::PlacementCommand) { placements: placements::PlacementRecord }
}

fn check_table<R: Kept>(state: &Snapshot) -> Result<(), ImpossibleState> {
    let table = R::table(state);
    if let Some(numbers) = R::NUMBERS {
        check_number(R::NAME, table.next, numbers.limit)?;
    }
    table.iter().try_for_each(|(key, record)| record.check(key, state))
}

fn skip_table<R: Record>(table: &mut Table<R>) {
    table.next += R::NUMBERS.map_or(0, |numbers| numbers.skipped);
    // A copy of the table is made even if nothing changes; an import is rare.
    table.records_mut().values_mut().for_each(|record| std::sync::Arc::make_mut(record).skip_lost());
}
