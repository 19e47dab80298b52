//! Faults by rule and by odds.

use std::ops::Range;
use std::time::Duration;

use super::random::Random;
use crate::error::Operation;

/// What goes wrong with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO; no effect.
    Fail,
    /// A read: refused, because too many requests wait.
    Overload,
    /// A write: EIO, but some of its sectors are written.
    FailTorn,
    /// A write or flush: acknowledged without effect, by a device that lies.
    Lose,
    /// A write: acknowledged, but only some of its sectors are written.
    Tear,
    /// A write: acknowledged, but it went to another block.
    Misdirect,
    /// A write: acknowledged with some bytes changed. A read: some bytes changed on the way, not on the medium.
    Corrupt,
    /// Takes effect only after this time on the environment's clock; needs a runtime.
    Delay(Duration),
    /// Takes effect only when the test calls `release`.
    Hold,
}

/// A fault at a place. It lets `skip` matching operations pass, then hits `times` of them.
#[derive(Clone, Debug)]
pub struct FaultRule {
    pub operation: Operation,
    /// Only operations that touch this range; all if none. A flush has no range.
    pub range: Option<Range<u64>>,
    pub skip: u64,
    pub times: u64,
    pub fault: Fault,
}

impl FaultRule {
    /// The next `operation` meets `fault`.
    pub fn next(operation: Operation, fault: Fault) -> FaultRule {
        FaultRule { operation, range: None, skip: 0, times: 1, fault }
    }

    /// Every `operation` meets `fault`.
    pub fn always(operation: Operation, fault: Fault) -> FaultRule {
        FaultRule { operation, range: None, skip: 0, times: u64::MAX, fault }
    }

    /// Every `operation` that touches `range` meets `fault`.
    pub fn always_in(range: Range<u64>, operation: Operation, fault: Fault) -> FaultRule {
        FaultRule { operation, range: Some(range), skip: 0, times: u64::MAX, fault }
    }

    fn matches(&self, operation: Operation, offset: u64, len: u64) -> bool {
        let touches = |range: &Range<u64>| offset < range.end && range.start < offset + len;
        self.operation == operation && self.times > 0 && self.range.as_ref().is_none_or(touches)
    }

    fn makes_sense(&self) -> bool {
        match self.fault {
            Fault::Fail | Fault::Delay(_) | Fault::Hold => true,
            Fault::FailTorn | Fault::Tear | Fault::Misdirect => self.operation == Operation::Write,
            Fault::Overload => self.operation == Operation::Read,
            Fault::Lose => matches!(self.operation, Operation::Write | Operation::Flush),
            Fault::Corrupt => matches!(self.operation, Operation::Write | Operation::Read),
        }
    }
}

/// How often operations meet faults, in a million of their kind. At most one fault meets an operation; they are tried in
/// this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultOdds {
    /// Honest failures.
    pub fail_read: u32,
    pub fail_write: u32,
    pub fail_torn_write: u32,
    pub fail_flush: u32,
    /// Lies: acknowledged, and not what was asked.
    pub lose_write: u32,
    pub tear_write: u32,
    pub misdirect_write: u32,
    pub corrupt_write: u32,
    pub corrupt_read: u32,
    /// Slowness of any operation, up to `delay_at_most`.
    pub delay: u32,
    pub delay_at_most: Duration,
    /// How often `try_read_cached` finds nothing cached.
    pub cache_miss: u32,
}

/// The rules and odds of a disk.
pub(super) struct Faults {
    rules: Vec<FaultRule>,
    pub(super) odds: FaultOdds,
}

impl Faults {
    pub(super) fn new(odds: FaultOdds) -> Faults {
        Faults { rules: Vec::new(), odds }
    }

    pub(super) fn clear(&mut self) {
        *self = Faults::new(FaultOdds::default());
    }

    pub(super) fn add(&mut self, rule: FaultRule) {
        assert!(rule.makes_sense(), "{:?} cannot happen to a {}", rule.fault, rule.operation);
        self.rules.push(rule);
    }

    pub(super) fn end_holding(&mut self) {
        self.rules.retain(|rule| rule.fault != Fault::Hold);
    }

    /// The fault that an operation meets.
    pub(super) fn choose(&mut self, operation: Operation, offset: u64, len: u64, random: &mut Random) -> Option<Fault> {
        self.by_rule(operation, offset, len).or_else(|| self.by_odds(operation, random))
    }

    /// As `choose`, for a read that is served on the spot and so can only fail or be corrupt.
    pub(super) fn choose_for_cached_read(&mut self, offset: u64, len: u64, random: &mut Random) -> Option<Fault> {
        let is_at_once = |fault: &Fault| matches!(fault, Fault::Fail | Fault::Corrupt);
        let first = self.rules.iter().find(|rule| rule.matches(Operation::Read, offset, len));
        if first.is_some_and(|rule| is_at_once(&rule.fault)) {
            return self.by_rule(Operation::Read, offset, len);
        }
        self.by_odds(Operation::Read, random).filter(is_at_once)
    }

    pub(super) fn misses_cache(&self, random: &mut Random) -> bool {
        random.happens(self.odds.cache_miss)
    }

    fn by_rule(&mut self, operation: Operation, offset: u64, len: u64) -> Option<Fault> {
        let rule = self.rules.iter_mut().find(|rule| rule.matches(operation, offset, len))?;
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        rule.times -= 1;
        Some(rule.fault)
    }

    fn by_odds(&self, operation: Operation, random: &mut Random) -> Option<Fault> {
        let odds = &self.odds;
        let honest_and_lies: &[(u32, Fault)] = match operation {
            Operation::Read => &[(odds.fail_read, Fault::Fail), (odds.corrupt_read, Fault::Corrupt)],
            Operation::Write => &[
                (odds.fail_write, Fault::Fail),
                (odds.fail_torn_write, Fault::FailTorn),
                (odds.lose_write, Fault::Lose),
                (odds.tear_write, Fault::Tear),
                (odds.misdirect_write, Fault::Misdirect),
                (odds.corrupt_write, Fault::Corrupt),
            ],
            Operation::Flush => &[(odds.fail_flush, Fault::Fail)],
            Operation::WriteZeros => &[(odds.fail_write, Fault::Fail), (odds.tear_write, Fault::Tear)],
            Operation::Allocate | Operation::Discard => &[],
        };
        for (per_million, fault) in honest_and_lies {
            if random.happens(*per_million) {
                return Some(*fault);
            }
        }
        random.happens(odds.delay).then(|| Fault::Delay(random.duration(odds.delay_at_most)))
    }
}
