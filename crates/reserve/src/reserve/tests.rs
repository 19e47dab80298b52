use proptest::prelude::*;

use super::{Deadline, Reserve, ReserveError};

/// Limit of the machines under test: small, so that it is met.
const LIMIT: usize = 4;

#[test]
fn a_published_key_is_forgotten_here() {
    let mut reserve = Reserve::new(LIMIT);
    reserve.reserve(1, 'a', Some(Deadline(10))).expect("free");
    assert_eq!(reserve.reserve(1, 'b', None), Err(ReserveError::Pending));
    assert_eq!(reserve.commit(1), Some('a'));
    assert_eq!(reserve.commit(1), None);
    assert_eq!((reserve.next_deadline(), reserve.expire(Deadline(99))), (None, vec![]));
    reserve.release(1, 'a').expect("published");
    assert_eq!(reserve.reserve(1, 'b', None), Err(ReserveError::Limbo));
    assert_eq!(reserve.release(1, 'a'), Err(ReserveError::Limbo));
    assert_eq!((reserve.drained(1), reserve.drained(1)), (Some('a'), None));
    reserve.reserve(1, 'b', None).expect("free again");
}

#[test]
fn a_deadline_that_is_reached_has_passed() {
    let mut reserve = Reserve::new(LIMIT);
    for (key, deadline) in [(1, Some(Deadline(20))), (2, Some(Deadline(10))), (3, None)] {
        reserve.reserve(key, (), deadline).expect("free");
    }
    assert_eq!(reserve.expire(Deadline(9)), vec![]);
    assert_eq!(reserve.expire(Deadline(20)), vec![2, 1]);
    assert_eq!(reserve.commit(1), None, "too late");
    assert!(reserve.is_pending(3));
    assert_eq!(reserve.limbo().map(|(key, ())| key).collect::<Vec<_>>(), vec![1, 2]);
}

#[test]
fn reservations_have_a_limit() {
    let mut reserve = Reserve::new(LIMIT);
    for key in 0..LIMIT {
        reserve.reserve(key, (), None).expect("free");
    }
    assert_eq!(reserve.reserve(LIMIT, (), None), Err(ReserveError::Full { limit: LIMIT }));
    assert!(reserve.revoke(0));
    reserve.reserve(LIMIT, (), None).expect("limbo does not count");
}

/// The reference: a plain list of what became of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Free,
    Pending { value: u8, deadline: Option<u64> },
    Published,
    Limbo(u8),
}

#[derive(Clone, Debug)]
enum Step {
    Reserve { key: usize, value: u8, deadline: Option<u64> },
    Commit(usize),
    Revoke(usize),
    Expire(u64),
    Release { key: usize, value: u8 },
    Drained(usize),
}

const KEYS: usize = 7;

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..KEYS, any::<u8>(), prop::option::of(0_u64..20))
            .prop_map(|(key, value, deadline)| Step::Reserve { key, value, deadline }),
        2 => (0..KEYS).prop_map(Step::Commit),
        1 => (0..KEYS).prop_map(Step::Revoke),
        1 => (0_u64..20).prop_map(Step::Expire),
        1 => (0..KEYS, any::<u8>()).prop_map(|(key, value)| Step::Release { key, value }),
        2 => (0..KEYS).prop_map(Step::Drained),
    ]
}

/// Takes a step on both sides; what the machine answers must be what the reference says.
fn take(step: &Step, reserve: &mut Reserve<usize, u8>, fates: &mut [Fate; KEYS]) -> Result<(), TestCaseError> {
    let pending = fates.iter().filter(|fate| matches!(fate, Fate::Pending { .. })).count();
    match *step {
        Step::Reserve { key, value, deadline } => {
            let expected = match fates[key] {
                Fate::Pending { .. } => Err(ReserveError::Pending),
                Fate::Limbo(_) => Err(ReserveError::Limbo),
                // That a published key is not reserved again is the caller's to see to.
                Fate::Published => return Ok(()),
                Fate::Free if pending == LIMIT => Err(ReserveError::Full { limit: LIMIT }),
                Fate::Free => Ok(()),
            };
            prop_assert_eq!(reserve.reserve(key, value, deadline.map(Deadline)), expected);
            if expected.is_ok() {
                fates[key] = Fate::Pending { value, deadline };
            }
        }
        Step::Commit(key) => match fates[key] {
            Fate::Pending { value, .. } => {
                prop_assert_eq!(reserve.commit(key), Some(value));
                fates[key] = Fate::Published;
            }
            _ => prop_assert_eq!(reserve.commit(key), None),
        },
        Step::Revoke(key) => match fates[key] {
            Fate::Pending { value, .. } => {
                prop_assert!(reserve.revoke(key));
                fates[key] = Fate::Limbo(value);
            }
            _ => prop_assert!(!reserve.revoke(key)),
        },
        Step::Expire(now) => {
            let mut expected = Vec::new();
            for (key, fate) in fates.iter_mut().enumerate() {
                if let Fate::Pending { value, deadline: Some(deadline) } = *fate
                    && deadline <= now
                {
                    expected.push((deadline, key));
                    *fate = Fate::Limbo(value);
                }
            }
            expected.sort_unstable();
            prop_assert_eq!(reserve.expire(Deadline(now)), expected.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
        }
        Step::Release { key, value } => {
            let expected = match fates[key] {
                Fate::Pending { .. } => Err(ReserveError::Pending),
                Fate::Limbo(_) => Err(ReserveError::Limbo),
                Fate::Free => return Ok(()),
                Fate::Published => Ok(()),
            };
            prop_assert_eq!(reserve.release(key, value), expected);
            if expected.is_ok() {
                fates[key] = Fate::Limbo(value);
            }
        }
        Step::Drained(key) => match fates[key] {
            Fate::Limbo(value) => {
                prop_assert_eq!(reserve.drained(key), Some(value));
                fates[key] = Fate::Free;
            }
            _ => prop_assert_eq!(reserve.drained(key), None),
        },
    }
    Ok(())
}

/// What the machine lists is what the reference has.
fn agree(reserve: &Reserve<usize, u8>, fates: &[Fate; KEYS]) -> Result<(), TestCaseError> {
    let mut pending = Vec::new();
    let mut limbo = Vec::new();
    let mut next = None;
    for (key, fate) in fates.iter().enumerate() {
        match *fate {
            Fate::Pending { value, deadline } => {
                pending.push((key, value));
                next = next.into_iter().chain(deadline.map(Deadline)).min();
            }
            Fate::Limbo(value) => limbo.push((key, value)),
            Fate::Free | Fate::Published => {}
        }
    }
    prop_assert_eq!(reserve.first_pending(), pending.first().map(|(key, _)| *key));
    prop_assert_eq!(reserve.pending().map(|(key, value)| (key, *value)).collect::<Vec<_>>(), pending);
    prop_assert_eq!(reserve.limbo().map(|(key, value)| (key, *value)).collect::<Vec<_>>(), limbo);
    prop_assert_eq!(reserve.next_deadline(), next);
    prop_assert_eq!(reserve.pending_len(), reserve.pending().count());
    for (key, fate) in fates.iter().enumerate() {
        let expected = if let Fate::Limbo(value) = fate { Some(value) } else { None };
        prop_assert_eq!(reserve.in_limbo(key), expected);
    }
    Ok(())
}

proptest! {
    #[test]
    fn does_as_the_reference(steps in prop::collection::vec(any_step(), 0..200)) {
        let mut reserve = Reserve::new(LIMIT);
        let mut fates = [Fate::Free; KEYS];
        for step in &steps {
            take(step, &mut reserve, &mut fates)?;
            agree(&reserve, &fates)?;
        }
    }
}
