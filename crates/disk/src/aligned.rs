//! Block-aligned buffers.
//!
//! Invariants of [`AlignedBuf`]
//! - `ptr` came from the global allocator with `layout(capacity)`, or dangles, aligned, while `capacity` is 0.
//! - `len <= written <= capacity`; the first `written` bytes are initialised.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use crate::BLOCK_BYTES;

/// Capacities up to this are powers of two, so that a freed buffer fits the next request of about its size. A chunk of 1 MiB
/// with its header needs a little more than that.
const LARGEST_RECYCLED_BYTES: usize = 2 << 20;
/// What one thread keeps of each capacity, in bytes (but at least this many buffers), and in buffers.
const RECYCLED_BUFFERS_AT_LEAST: usize = 2;
const RECYCLED_BYTES_PER_CAPACITY: usize = 256 << 10;
const RECYCLED_BUFFERS_PER_CAPACITY: usize = 32;
const CAPACITY_COUNT: usize = (LARGEST_RECYCLED_BYTES / BLOCK_BYTES).ilog2() as usize + 1;

/// A heap buffer that starts on a block boundary. It grows like a `Vec<u8>`, and hands its memory to the thread's next buffer.
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    capacity: usize,
    /// How far the memory has been written since it was allocated, by this buffer or by its predecessors in the memory.
    written: usize,
    len: usize,
}

// SAFETY: the buffer owns its memory alone, like a Vec<u8>; nothing in it is tied to a thread.
unsafe impl Send for AlignedBuf {}
// SAFETY: through a shared reference the memory can only be read.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// An empty buffer with room for at least `capacity` bytes. Memory is touched only when bytes are put into it.
    pub fn with_capacity(capacity: usize) -> AlignedBuf {
        let capacity = rounded_capacity(capacity);
        if capacity == 0 {
            return AlignedBuf { ptr: NonNull::<Block>::dangling().cast(), capacity: 0, written: 0, len: 0 };
        }
        if let Some(recycled) = take_recycled(capacity) {
            return recycled;
        }
        // SAFETY: the layout's size is not 0.
        let ptr = unsafe { alloc(layout(capacity)) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout(capacity)) };
        AlignedBuf { ptr, capacity, written: 0, len: 0 }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(len);
        buf.resize(len);
        buf
    }

    /// A buffer of `len` bytes to read into. What it holds before is unspecified: zeros, or bytes of an earlier buffer.
    pub fn for_read(len: usize) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(len);
        buf.initialise_to(len);
        buf.len = len;
        buf
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::with_capacity(bytes.len());
        buf.extend_from_slice(bytes);
        buf
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Room left before the buffer has to move.
    pub fn spare(&self) -> usize {
        self.capacity - self.len
    }

    /// Forgets all bytes; the memory stays.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Keeps the first `len` bytes; no effect if there are fewer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the buffer `len` bytes long; new bytes are zero.
    pub fn resize(&mut self, len: usize) {
        if len > self.len {
            self.reserve(len - self.len);
            // SAFETY: len <= capacity after the reserve, and the range self.len..len lies within the allocation.
            unsafe { ptr::write_bytes(self.ptr.as_ptr().add(self.len), 0, len - self.len) };
            self.written = self.written.max(len);
        }
        self.len = len;
    }

    /// Appends zeros up to the next multiple of a block.
    pub fn pad_to_block(&mut self) {
        self.resize(self.len.next_multiple_of(BLOCK_BYTES));
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let end = self.len + bytes.len();
        // SAFETY: the reserve made room for self.len..end, and `bytes` cannot overlap memory that `self` borrows mutably.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr.as_ptr().add(self.len), bytes.len()) };
        self.written = self.written.max(end);
        self.len = end;
    }

    /// Makes room for `additional` bytes more; at least doubles a buffer that has to move.
    pub fn reserve(&mut self, additional: usize) {
        let needed = self.len.checked_add(additional).expect("a buffer's length fits usize");
        if needed <= self.capacity {
            return;
        }
        let mut larger = AlignedBuf::with_capacity(needed.max(self.capacity.saturating_mul(2)));
        larger.extend_from_slice(self);
        *self = larger;
    }

    /// Zeroes what was never written up to `len`, which must not exceed the capacity.
    fn initialise_to(&mut self, len: usize) {
        assert!(len <= self.capacity, "initialising beyond the capacity");
        if len > self.written {
            // SAFETY: written..len lies within the allocation.
            unsafe { ptr::write_bytes(self.ptr.as_ptr().add(self.written), 0, len - self.written) };
            self.written = len;
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and owned by this buffer.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> AlignedBuf {
        AlignedBuf::copy_of(self)
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.capacity == 0 {
            return;
        }
        let memory = Memory { ptr: self.ptr, capacity: self.capacity, written: self.written };
        // While a thread ends its pool may be gone before its last buffer: then the memory is freed here.
        if RECYCLED.try_with(|pool| pool.borrow_mut().put(memory)).is_err() {
            free(self.ptr, self.capacity);
        }
    }
}

/// Where an empty buffer dangles.
#[repr(align(4096))]
struct Block;

const _: () = assert!(align_of::<Block>() == BLOCK_BYTES);

/// Memory between two buffers.
struct Memory {
    ptr: NonNull<u8>,
    capacity: usize,
    written: usize,
}

/// The freed memory of one thread, by capacity.
struct Recycled {
    by_capacity: [Vec<Memory>; CAPACITY_COUNT],
}

impl Recycled {
    fn put(&mut self, memory: Memory) {
        let Some(class) = class_of(memory.capacity) else { return free(memory.ptr, memory.capacity) };
        let most =
            (RECYCLED_BYTES_PER_CAPACITY / memory.capacity).clamp(RECYCLED_BUFFERS_AT_LEAST, RECYCLED_BUFFERS_PER_CAPACITY);
        if self.by_capacity[class].len() < most {
            self.by_capacity[class].push(memory);
        } else {
            free(memory.ptr, memory.capacity);
        }
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        for memory in self.by_capacity.iter_mut().flat_map(|class| class.drain(..)) {
            free(memory.ptr, memory.capacity);
        }
    }
}

thread_local! {
    static RECYCLED: RefCell<Recycled> =
        const { RefCell::new(Recycled { by_capacity: [const { Vec::new() }; CAPACITY_COUNT] }) };
}

fn take_recycled(capacity: usize) -> Option<AlignedBuf> {
    let class = class_of(capacity)?;
    let memory = RECYCLED.try_with(|pool| pool.borrow_mut().by_capacity[class].pop()).ok()??;
    Some(AlignedBuf { ptr: memory.ptr, capacity: memory.capacity, written: memory.written, len: 0 })
}

fn free(ptr: NonNull<u8>, capacity: usize) {
    // SAFETY: by the invariant, ptr was allocated with this layout; its one owner is giving it up.
    unsafe { dealloc(ptr.as_ptr(), layout(capacity)) };
}

fn class_of(capacity: usize) -> Option<usize> {
    (capacity <= LARGEST_RECYCLED_BYTES).then(|| (capacity / BLOCK_BYTES).ilog2() as usize)
}

fn rounded_capacity(capacity: usize) -> usize {
    if capacity == 0 {
        0
    } else if capacity <= LARGEST_RECYCLED_BYTES {
        capacity.next_power_of_two().max(BLOCK_BYTES)
    } else {
        capacity.checked_next_multiple_of(BLOCK_BYTES).expect("a buffer's capacity fits usize")
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BLOCK_BYTES).expect("a buffer's capacity fits isize")
}

#[cfg(test)]
mod tests;
