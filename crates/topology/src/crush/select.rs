//! Devices in different domains, by a rule.
//!
//! ```text
//!   attempt 0, 1, 2, …:  root ── straw2 ──► … ──► a domain of the rule's level ── straw2 ──► … ──► a device
//!                                                   └─ taken already: the next attempt
//! ```
//!
//! The copies are the first attempts that end in different domains. So a device that is lost is followed by those that stood behind it, and
//! what stays keeps its order. A weighty domain wins most attempts; where [`MAX_ATTEMPTS_PER_COPY`] have not found another, the choice is
//! among the domains that are not taken, which always ends. The original gives up there and leaves a group short of copies.

use super::straw2::{choose, scatter};
use super::tree::{Item, Level, Tree};
use types::DeviceId;

/// Attempts before the choice is made among the domains that are left. A domain that holds 90% of the weight takes all of 50 attempts
/// with probability 0.9^50 = 0.5%.
pub const MAX_ATTEMPTS_PER_COPY: usize = 50;

/// How many copies, and what no two of them may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub copies: usize,
    pub apart: Level,
}

/// Why a rule can't be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} copies need as many {level}s, and {found} that hold none of them have weight")]
pub struct SelectError {
    pub level: Level,
    pub wanted: usize,
    pub found: usize,
}

impl Tree {
    /// The devices that answer a question, the first choice first.
    pub fn select(&self, question: u64, rule: Rule) -> Result<Vec<DeviceId>, SelectError> {
        self.select_beside(question, rule, &[])
    }

    /// As many more devices as the rule has copies, apart also from the devices that hold one. Devices that the tree lacks are
    /// nowhere and take no domain.
    pub fn select_beside(&self, question: u64, rule: Rule, has: &[DeviceId]) -> Result<Vec<DeviceId>, SelectError> {
        let mut taken: Vec<u64> = has.iter().filter_map(|device| self.domain_of(*device, rule.apart)).collect();
        let mut chosen = Vec::with_capacity(rule.copies);
        let last_attempt = (rule.copies * MAX_ATTEMPTS_PER_COPY) as u64;
        let mut attempt = 0;
        while chosen.len() < rule.copies {
            let question = scatter(question ^ scatter(attempt));
            let candidate = if attempt < last_attempt { self.walk(question, rule.apart) } else { None };
            let domain = match candidate {
                Some(domain) if taken.contains(&domain.id) => None,
                Some(domain) => Some(domain),
                None => Some(self.last_resort(question, rule, &taken, chosen.len())?),
            };
            if let Some(domain) = domain {
                taken.push(domain.id);
                chosen.push(self.device_in(question, domain, rule.apart));
            }
            attempt += 1;
        }
        Ok(chosen)
    }

    /// From the root down to a domain of this level; none in a tree without devices.
    fn walk(&self, question: u64, level: Level) -> Option<Item> {
        let mut domain = self.root();
        loop {
            let item = pick(question, &domain.items)?;
            if domain.level == level {
                return Some(item);
            }
            domain = self.domain(item.to);
        }
    }

    /// From a domain of this level down to a device.
    fn device_in(&self, question: u64, mut item: Item, level: Level) -> DeviceId {
        let mut level = level;
        while level != Level::Device {
            let domain = self.domain(item.to);
            item = pick(question, &domain.items).expect("a domain in a tree has a device");
            level = domain.level;
        }
        DeviceId(item.to)
    }

    fn last_resort(&self, question: u64, rule: Rule, taken: &[u64], chosen: usize) -> Result<Item, SelectError> {
        let free: Vec<Item> = self.items_at(rule.apart).filter(|item| !taken.contains(&item.id)).copied().collect();
        pick(question, &free).ok_or(SelectError { level: rule.apart, wanted: rule.copies, found: chosen })
    }
}

fn pick(question: u64, items: &[Item]) -> Option<Item> {
    if items.len() <= 1 {
        return items.first().copied();
    }
    let id = choose(question, items.iter().map(|item| (item.id, item.weight)))?;
    items.iter().find(|item| item.id == id).copied()
}
