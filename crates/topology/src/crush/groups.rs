//! Placement groups: what is placed together.
//!
//! Objects are hashed to groups and only groups are placed, so that a map change is computed once per group and peers are few. The price is
//! that a device holds a small number of groups: with g groups a device the load varies by about 1/√g, whatever the number of
//! objects.

use super::select::{Rule, SelectError};
use super::straw2::scatter;
use super::tree::Tree;
use types::DeviceId;

/// Most groups of one pool.
pub const MAX_GROUPS: u32 = 1 << 24;

/// A placement group of some pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u32);

/// A number of groups that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} placement groups, not 1 to {MAX_GROUPS}")]
pub struct GroupCountError(pub u32);

/// The groups of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementGroups {
    pool: u32,
    count: u32,
}

impl PlacementGroups {
    /// Pools with different numbers have their groups elsewhere.
    pub fn new(pool: u32, count: u32) -> Result<PlacementGroups, GroupCountError> {
        if (1..=MAX_GROUPS).contains(&count) { Ok(PlacementGroups { pool, count }) } else { Err(GroupCountError(count)) }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn all(&self) -> impl Iterator<Item = Group> + use<> {
        (0..self.count).map(Group)
    }

    /// The group of an object, by a hash of its id. By multiplication: twice as many groups split each group in two.
    pub fn group_of(&self, object: u64) -> Group {
        Group(((u128::from(scatter(object)) * u128::from(self.count)) >> 64) as u32)
    }

    /// The devices of a group, apart also from those that hold a copy already.
    pub fn devices(&self, group: Group, tree: &Tree, rule: Rule, has: &[DeviceId]) -> Result<Vec<DeviceId>, SelectError> {
        let question = (u64::from(self.pool) << 32) | u64::from(group.0);
        tree.select_beside(scatter(question), rule, has)
    }
}

/// How many copies have to be made to come from one set of devices to another.
pub fn moved_copies(before: &[DeviceId], after: &[DeviceId]) -> usize {
    after.iter().filter(|device| !before.contains(device)).count()
}
