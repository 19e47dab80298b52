//! Against `BTreeMap`.

use proptest::prelude::*;

use super::*;

impl Key for u16 {
    const LEAST: u16 = 0;
}

fn check(pages: &Pages<u16, u32>, model: &BTreeMap<u16, u32>) {
    assert_eq!(pages.len(), model.len());
    assert!(pages.iter().eq(model.iter().map(|(key, value)| (*key, value))));
    let is_lone = pages.pages.len() == 1;
    for (first, page) in &pages.pages {
        assert!(page.len() <= MOST && (is_lone || *first == 0 || !page.is_empty()), "{} entries", page.len());
        assert!(page.iter().all(|(key, _)| key >= first));
    }
}

proptest! {
    #[test]
    fn it_is_an_ordered_map(steps in prop::collection::vec((0u8..8, 0u16..400), 1..1500), bounds in (0u16..400, 0u16..400)) {
        let (mut pages, mut model) = (Pages::default(), BTreeMap::new());
        for (number, (kind, key)) in steps.into_iter().enumerate() {
            let value = number as u32;
            match kind {
                0..4 => prop_assert_eq!(pages.insert(key, value), model.insert(key, value)),
                4..7 => prop_assert_eq!(pages.remove(&key), model.remove(&key)),
                _ => {
                    if let Some(found) = pages.get_mut(&key) {
                        *found = value;
                    }
                    model.entry(key).and_modify(|found| *found = value);
                }
            }
            prop_assert_eq!(pages.get(&key), model.get(&key));
        }
        check(&pages, &model);
        let (low, high) = (bounds.0.min(bounds.1), bounds.0.max(bounds.1));
        let found: Vec<u16> = pages.range((Bound::Excluded(low), Bound::Included(high))).map(|(key, _)| key).collect();
        let expected: Vec<u16> = model.keys().copied().filter(|key| *key > low && *key <= high).collect();
        prop_assert_eq!(found, expected);
        prop_assert!(pages.range(low..high).eq(model.range(low..high).map(|(key, value)| (*key, value))));
        for key in model.keys().copied().collect::<Vec<_>>() {
            pages.remove(&key);
        }
        prop_assert_eq!((pages.len(), pages.pages.len()), (0, 1));
    }
}

#[test]
fn ascending_keys_leave_full_pages() {
    let mut pages = Pages::default();
    for key in 0..10_000u16 {
        pages.insert(key, 0u32);
    }
    assert_eq!(pages.pages.len(), 10_000usize.div_ceil(MOST));
}
