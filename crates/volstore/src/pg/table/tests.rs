//! The table against a map, and what an object takes of memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use format::attributes::{Attributes, ETag};
use model::choice::{Choose, Seeded};
use types::BucketId;

use super::Table;
use crate::content::{Content, Extent, Object, Piece};
use crate::name::{Name, Opseq};
use crate::pg::leaf::LEAF_BYTES;

/// The bar.
const MOST_BYTES_PER_OBJECT: usize = 100;
const MANY: u64 = 200_000;

fn small(number: u64, attributes: &Attributes) -> Object {
    let digest = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes();
    let attributes = Attributes { etag: ETag::Md5(digest), modified_ms: 1_790_000_000_000 + number, ..attributes.clone() };
    let extents = [Extent { first: number as u32 + 2, count: 1 }].into();
    let piece = Piece { length: 64, extents, sums: [number as u32 * 7].into() };
    let content = Arc::new(Content { pieces: [piece].into(), parts: None });
    Object { opseq: Opseq(number + 1), attributes: attributes.to_bytes().to_vec().into(), content }
}

fn check(table: &Table) {
    let bounds: Vec<&Box<[u8]>> = table.leaves.keys().collect();
    assert!(bounds[0].is_empty(), "the first leaf's bound");
    for (at, (bound, leaf)) in table.leaves.iter().enumerate() {
        assert!(at == 0 || !leaf.is_empty(), "an empty leaf at {bound:?}");
        let mut rows = leaf.rows();
        while let Some((name, _)) = rows.next_row() {
            assert!(
                name >= &bound[..] && bounds.get(at + 1).is_none_or(|next| name < &next[..]),
                "{name:?} is not of the leaf"
            );
        }
    }
}

#[test]
fn a_table_is_a_map() {
    for seed in 0..20 {
        let mut seeded = Seeded::new(seed);
        let (mut table, mut model) = (Table::new(), BTreeMap::new());
        for step in 0..3000u64 {
            let number = seeded.below(400);
            let name = Name::starting(BucketId(1 + number as u64 % 3), format!("{}/{number}", number % 7).as_bytes());
            assert_eq!(table.get(&name).as_ref(), model.get(&name), "seed {seed}, step {step}");
            // It grows, then shrinks.
            if seeded.percent(if step < 1500 { 80 } else { 20 }) {
                let mut object = small(step, &Attributes::default());
                if seeded.percent(5) {
                    let metadata = vec![("a".into(), vec![b'x'; seeded.below(6000)].into())];
                    object.attributes = Attributes { metadata, ..Attributes::default() }.to_bytes().to_vec().into();
                }
                let former = table.set(&name, &object).former;
                assert_eq!(former, model.insert(name, object), "seed {seed}, step {step}");
            } else {
                let former = table.remove(&name).map(|(former, _)| former);
                assert_eq!(former, model.remove(&name), "seed {seed}, step {step}");
            }
            if step % 50 == 0 {
                check(&table);
                let pivot = Name::starting(BucketId(2), format!("{}", seeded.below(9)).as_bytes());
                for from in [Bound::Unbounded, Bound::Included(&pivot), Bound::Excluded(&pivot)] {
                    let found: Vec<(Name, Object)> = table.range(from).map(|(name, row)| (name, row.object())).collect();
                    let of_model = model.range((from, Bound::Unbounded));
                    let expected: Vec<(Name, Object)> = of_model.map(|(name, object)| (name.clone(), object.clone())).collect();
                    assert_eq!(found, expected, "seed {seed}, step {step}");
                }
            }
        }
        assert_eq!(table.len(), model.len());
        model.iter().for_each(|(name, object)| assert_eq!(table.get(name).as_ref(), Some(object)));
    }
}

#[test]
fn a_pin_and_what_frees_share_a_reference() {
    let mut table = Table::new();
    let name = Name::starting(BucketId(1), b"a");
    table.set(&name, &small(1, &Attributes::default()));
    let pinned = table.pin(&name).expect("it is there");
    let again = table.pin(&name).expect("it is there");
    assert!(Arc::ptr_eq(&pinned.content, &again.content));
    let (former, _) = table.remove(&name).expect("it is there");
    assert!(Arc::ptr_eq(&pinned.content, &former.content));
    drop((pinned, again));
    assert_eq!(Arc::strong_count(&former.content), 1, "its blocks are free now");
}

/// Names of 24 bytes in the order in which clients write them: at random, and ascending.
#[test]
fn an_object_takes_few_bytes_of_memory() {
    let attributes = Attributes { content_type: Some("binary/octet-stream".into()), ..Attributes::default() };
    for is_random in [false, true] {
        let mut table = Table::new();
        for number in 0..MANY {
            let spread = if is_random { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number };
            let name = Name::starting(BucketId(1), format!("objects/{spread:016x}").as_bytes());
            table.set(&name, &small(number, &attributes));
        }
        let bytes = table.memory_bytes() / MANY as usize;
        println!("{bytes} bytes an object, {} leaves of {LEAF_BYTES}, random: {is_random}", table.leaves.len());
        assert!(bytes <= MOST_BYTES_PER_OBJECT * 3 / 4, "{bytes} bytes an object, random: {is_random}");
    }
}
