use proptest::prelude::*;

use super::{AlignedBuf, RECYCLED_BUFFERS_PER_CAPACITY, RECYCLED_BYTES_PER_CAPACITY};
use crate::BLOCK_BYTES;

fn starts_on_a_block(buf: &AlignedBuf) -> bool {
    buf.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
}

#[test]
fn an_empty_buffer_allocates_nothing_and_is_aligned() {
    let buf = AlignedBuf::with_capacity(0);
    assert_eq!((buf.len(), buf.capacity()), (0, 0));
    assert!(starts_on_a_block(&buf));
    assert_eq!(&buf[..], b"");
}

#[test]
fn capacities_are_powers_of_two_up_to_the_largest_recycled_and_whole_blocks_beyond() {
    assert_eq!(AlignedBuf::with_capacity(1).capacity(), 4096);
    assert_eq!(AlignedBuf::with_capacity(4097).capacity(), 8192);
    assert_eq!(AlignedBuf::with_capacity(1 << 20).capacity(), 1 << 20);
    assert_eq!(AlignedBuf::with_capacity((1 << 20) + 1).capacity(), 2 << 20);
    assert_eq!(AlignedBuf::with_capacity((2 << 20) + 1).capacity(), (2 << 20) + 4096);
}

#[test]
fn resizing_exposes_zeros_even_in_recycled_memory() {
    for _ in 0..3 {
        let mut buf = AlignedBuf::zeroed(10_000);
        assert!(buf.iter().all(|byte| *byte == 0));
        buf.fill(0xAB);
        buf.truncate(5);
        buf.resize(6_000);
        assert_eq!(buf[..5], [0xAB; 5]);
        assert!(buf[5..].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn memory_is_recycled_on_the_same_thread_and_the_pool_is_bounded() {
    let held: Vec<AlignedBuf> = (0..100).map(|_| AlignedBuf::zeroed(4096)).collect();
    drop(held);
    let pooled = super::RECYCLED.with(|pool| pool.borrow().by_capacity[0].len());
    assert_eq!(pooled, (RECYCLED_BYTES_PER_CAPACITY / 4096).min(RECYCLED_BUFFERS_PER_CAPACITY));
    let first = AlignedBuf::for_read(100);
    let address = first.as_ptr().addr();
    drop(first);
    assert_eq!(AlignedBuf::for_read(4_000).as_ptr().addr(), address);
}

#[test]
fn buffers_may_be_dropped_on_another_thread() {
    let buf = AlignedBuf::copy_of(b"moved");
    let text = std::thread::spawn(move || buf[..].to_vec()).join().expect("thread");
    assert_eq!(text, b"moved");
}

#[derive(Clone, Debug)]
enum Step {
    Extend(Vec<u8>),
    Resize(usize),
    Truncate(usize),
    Clear,
    Pad,
    Clone,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..9_000).prop_map(Step::Extend),
        (0usize..20_000).prop_map(Step::Resize),
        (0usize..20_000).prop_map(Step::Truncate),
        Just(Step::Clear),
        Just(Step::Pad),
        Just(Step::Clone),
    ];
    proptest::collection::vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_like_a_vec(steps in steps()) {
        let mut buf = AlignedBuf::with_capacity(0);
        let mut model: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Extend(bytes) => {
                    buf.extend_from_slice(&bytes);
                    model.extend_from_slice(&bytes);
                }
                Step::Resize(len) => {
                    buf.resize(len);
                    model.resize(len, 0);
                }
                Step::Truncate(len) => {
                    buf.truncate(len);
                    model.truncate(len);
                }
                Step::Clear => {
                    buf.clear();
                    model.clear();
                }
                Step::Pad => {
                    buf.pad_to_block();
                    model.resize(model.len().next_multiple_of(BLOCK_BYTES), 0);
                }
                Step::Clone => buf = buf.clone(),
            }
            prop_assert!(starts_on_a_block(&buf));
            prop_assert_eq!(&buf[..], &model[..]);
            prop_assert!(buf.capacity() >= buf.len());
        }
    }
}
