//! The state as entries: one for each record, one for each kind's next number, and the number of the last command that is in it. `kv` holds
//! them, and an export is the list of them.
//!
//! ```text
//!   1                 number of the last command
//!   2 | tag           the kind's next number
//!   tag | key         the record        (keys in bytes that sort, values in postcard)
//! ```

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kind::{Kept, Key, Record, Table};
use crate::modules::{all_tables, load_record, next_number, next_number_mut, value_of};
use crate::snapshot::{CommandIndex, ImpossibleState, Snapshot};

const APPLIED: u8 = 1;
const NEXT_NUMBER: u8 = 2;

/// The name of an entry. Of records the tag and the key.
pub(crate) type EntryKey = Vec<u8>;

/// An entry that can't be read back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("the manager's state has an entry {key:02x?} that this version does not know; use a newer Trilith")]
    Unknown { key: Vec<u8> },
    #[error("the manager's state has an entry {key:02x?} that cannot be decoded; restore it from a copy or a superblock")]
    Body {
        key: Vec<u8>,
        #[source]
        cause: postcard::Error,
    },
    #[error("the manager's state has another entry's record under {key:02x?}; restore it from a copy or a superblock")]
    Misplaced { key: Vec<u8> },
    #[error("{0}; restore the manager's state from a copy or a superblock")]
    Impossible(#[from] ImpossibleState),
}

/// The entry of a record.
pub(crate) fn record_key<R: Record>(key: &R::Key) -> EntryKey {
    [&[R::TAG], &key.encode()[..]].concat()
}

/// The entry of a kind's next number.
pub(crate) fn number_key(tag: u8) -> EntryKey {
    vec![NEXT_NUMBER, tag]
}

/// The entry that says which command was the last.
pub(crate) fn applied(state: &Snapshot) -> (EntryKey, Vec<u8>) {
    (vec![APPLIED], encode(&state.applied.0))
}

/// An entry's value; none if the state does not hold it.
pub(crate) fn value(state: &Snapshot, key: &[u8]) -> Option<Vec<u8>> {
    match key {
        [NEXT_NUMBER, tag] => next_number(state, *tag).map(|next| encode(&next)),
        [tag, key @ ..] => value_of(state, *tag, key),
        [] => None,
    }
}

/// Every entry of a state, ascending.
pub(crate) fn all(state: &Snapshot) -> Vec<(EntryKey, Vec<u8>)> {
    let mut entries = vec![applied(state)];
    all_tables(state, &mut entries);
    entries.sort_unstable();
    entries
}

/// The entries of one kind.
pub(crate) fn of_table<R: Record>(table: &Table<R>, entries: &mut Vec<(EntryKey, Vec<u8>)>) {
    if let Some(numbers) = R::NUMBERS
        && table.next != numbers.first
    {
        entries.push((number_key(R::TAG), encode(&table.next)));
    }
    entries.extend(table.iter().map(|(key, record)| (record_key::<R>(key), encode(record.as_ref()))));
}

/// A record's bytes; none if the table does not have it.
pub(crate) fn value_in<R: Record>(table: &Table<R>, key: &[u8]) -> Option<Vec<u8>> {
    table.get(&R::Key::decode(key)?).map(|record| encode(record.as_ref()))
}

/// Takes an entry into a state that is read back.
pub(crate) fn load(state: &mut Snapshot, at: &[u8], value: &[u8]) -> Result<(), EntryError> {
    let unknown = || EntryError::Unknown { key: at.to_vec() };
    match at {
        [APPLIED] => state.applied = CommandIndex(decode(at, value)?),
        [NEXT_NUMBER, tag] => *next_number_mut(state, *tag).ok_or_else(unknown)? = decode(at, value)?,
        [tag, ..] => load_record(state, *tag, at, value).unwrap_or_else(|| Err(unknown()))?,
        [] => return Err(unknown()),
    }
    Ok(())
}

/// As [`load`], of a record whose kind is known.
pub(crate) fn load_as<R: Kept>(state: &mut Snapshot, at: &[u8], value: &[u8]) -> Result<(), EntryError> {
    let key = R::Key::decode(&at[1..]).ok_or_else(|| EntryError::Unknown { key: at.to_vec() })?;
    let record: R = decode(at, value)?;
    if !record.is_at(&key) {
        return Err(EntryError::Misplaced { key: at.to_vec() });
    }
    R::table_mut(state).records_mut().insert(key, Arc::new(record));
    Ok(())
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("encoding into memory cannot fail")
}

fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, EntryError> {
    let body = |cause| EntryError::Body { key: key.to_vec(), cause };
    let (decoded, rest) = postcard::take_from_bytes(value).map_err(body)?;
    // What a record has too much would be lost by writing it again.
    if rest.is_empty() { Ok(decoded) } else { Err(body(postcard::Error::DeserializeBadEncoding)) }
}
