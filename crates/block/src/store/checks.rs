//! What a request must look like.

use types::limits::BLOCK_BYTES;
use types::{BLOB_BYTES, Pieces};

use crate::stores::{Change, StoreError};

/// The pieces of a change's content.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    touched: Pieces,
    /// Those of them that it covers.
    whole: Pieces,
}

/// Looks at a change by itself.
pub fn shape_of(change: &Change) -> Result<Shape, StoreError> {
    let Change { offset, filled, zeroed, dropped, .. } = *change;
    let length = change.content.len();
    let end = aligned_end(offset, length)?;
    let (touched, whole) = (Pieces::touched(offset..end), Pieces::within(offset..end));
    let overlap = (filled & zeroed) | (filled & dropped) | (zeroed & dropped);
    if !overlap.is_empty() {
        return Err(invalid(format!("pieces {:#018x} of a change become two things at once", overlap.0)));
    }
    let lost = touched & (zeroed | dropped);
    if !lost.is_empty() {
        return Err(invalid(format!("content for pieces {:#018x}, which have none after the change", lost.0)));
    }
    Ok(Shape { touched, whole })
}

impl Shape {
    /// Looks at a change of a blob of which these pieces have content.
    pub fn check(&self, change: &Change, data: Pieces) -> Result<(), StoreError> {
        let without = self.touched & !(change.filled | data);
        if !without.is_empty() {
            return Err(invalid(format!("content for pieces {:#018x}, which have none: fill them", without.0)));
        }
        let torn = change.filled & !data & !self.whole;
        if !torn.is_empty() {
            return Err(invalid(format!("pieces {:#018x} have no content yet, and the change does not cover them", torn.0)));
        }
        Ok(())
    }
}

/// The pieces of a range that is to be read.
pub fn read_of(offset: u32, length: u32) -> Result<Pieces, StoreError> {
    let end = aligned_end(offset, length as usize)?;
    if length == 0 {
        return Err(invalid("a read of no bytes".to_owned()));
    }
    Ok(Pieces::touched(offset..end))
}

/// The end of a range of whole blocks of the device within a blob.
fn aligned_end(offset: u32, length: usize) -> Result<u32, StoreError> {
    let is_aligned = (offset as usize).is_multiple_of(BLOCK_BYTES) && length.is_multiple_of(BLOCK_BYTES);
    let end = offset as usize + length;
    if is_aligned && end <= BLOB_BYTES as usize {
        return Ok(end as u32);
    }
    Err(invalid(format!(
        "{length} bytes at offset {offset} of a blob: whole blocks of {BLOCK_BYTES} within {BLOB_BYTES} are needed"
    )))
}

pub fn invalid(reason: String) -> StoreError {
    StoreError::Invalid(reason)
}
