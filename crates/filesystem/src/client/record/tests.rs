use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn header() -> impl Strategy<Value = Header> {
    let locks_lost = vec(any::<u64>(), 0..=MAX_FILE_TREES);
    let fixed = (any::<u64>(), any::<bool>(), any::<u64>(), 1..=u64::MAX);
    (fixed, locks_lost).prop_map(|((session, is_exclusive, generation, reserved_below), locks_lost)| Header {
        session,
        is_exclusive,
        generation,
        reserved_below,
        locks_lost,
    })
}

fn step(below: u64) -> impl Strategy<Value = Step> {
    (0..below, any::<u64>()).prop_map(|(sequence, kind)| Step { sequence, kind })
}

fn record() -> impl Strategy<Value = (Header, Vec<(u32, u64, Vec<Step>)>)> {
    let slot = |below| (0..64_u32, 1..=u64::MAX, vec(step(below), 0..=MAX_STEPS));
    header().prop_flat_map(move |header| {
        let below = header.reserved_below;
        (Just(header), vec(slot(below), 0..20))
    })
}

proptest! {
    #[test]
    fn what_is_written_is_found(written in record()) {
        let (header, slots) = written;
        let record = Record::begin(tempfile::tempfile().unwrap(), &header).unwrap();
        let mut expected = std::collections::BTreeMap::new();
        for (slot, call, steps) in slots {
            record.write_slot(slot, call, &steps).unwrap();
            expected.insert(slot, Recorded { slot, call, steps: steps.into() });
        }
        if let Some((slot, _)) = expected.pop_first() {
            record.clear_slot(slot).unwrap();
        }
        let (_, found, calls) = Record::open(record.0).unwrap();
        prop_assert_eq!(found, header);
        prop_assert_eq!(calls, expected.into_values().collect::<Vec<_>>());
    }

    #[test]
    fn any_bytes_are_a_record_or_refused(mut bytes in vec(any::<u8>(), 0..6000), has_magic: bool, small: bool) {
        if has_magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&MAGIC);
        }
        if small {
            // Counts that a slot can have.
            bytes.iter_mut().skip(SLOTS_FROM as usize).for_each(|byte| *byte &= 1);
        }
        if let Some((header, calls)) = decode(&bytes) {
            prop_assert!(calls.iter().all(|found| found.call != 0 && found.steps.len() <= MAX_STEPS));
            prop_assert!(calls.iter().flat_map(|found| &found.steps).all(|step| step.sequence < header.reserved_below));
        }
    }
}

#[test]
fn a_file_of_another_kind_is_refused() {
    for bytes in [&b""[..], b"TRIMNT02", &[0; 5000]] {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        assert!(matches!(Record::open(file), Err(RecordError::Layout)));
    }
}
