//! A batch: changes that become visible and durable together.

/// Longest key, in bytes. Fjall's own limit is 65,535; no table of ours comes near this one.
pub const MAX_KEY_BYTES: usize = 16 * 1024;

/// Longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of keys and values in one batch.
pub const MAX_BATCH_BYTES: usize = 256 * 1024 * 1024;

/// Changes that are applied together, in the order in which they were added: the last change of a key wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    bytes: usize,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.push(key.into(), Some(value.into()));
    }

    /// Removes a key; nothing happens if it is absent.
    pub fn remove(&mut self, key: impl Into<Vec<u8>>) {
        self.push(key.into(), None);
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// True if the batch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The changes in order; no value means removal.
    pub(crate) fn into_changes(self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        self.changes
    }

    /// The changes in order; no value means removal.
    pub(crate) fn changes(&self) -> &[(Vec<u8>, Option<Vec<u8>>)] {
        &self.changes
    }

    fn push(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        self.changes.push((key, value));
    }
}
