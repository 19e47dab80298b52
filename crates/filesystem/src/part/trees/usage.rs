//! What the other trees of a volume have, as the leader of one of them asks each second: for quotas, and for the choice of a tree for a new directory.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::siblings::Siblings;
use crate::ids::TreeIndex;
use crate::meta::{Command, Found, Query, Usage};
use crate::transactions::Trees as _;

/// Between two looks at the other trees.
pub const LOOK: Duration = Duration::from_secs(1);

/// What another tree has said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    usage: Usage,
    /// It has answered the last question.
    is_there: bool,
}

/// By tree.
pub type Elsewhere = BTreeMap<TreeIndex, Told>;

/// Which tree is to have a new directory: one by chance, among those that answer and are below the soft limit of inodes.
pub fn tree_for_directory(siblings: &Siblings) -> TreeIndex {
    let (member, trees) = (&siblings.member, &siblings.trees);
    let is_room_here = !trees.is_full(member.look(|machine| machine.usage().inodes));
    let elsewhere = member.elsewhere.lock();
    let others = elsewhere.iter().filter(|(_, told)| told.is_there && !trees.is_full(told.usage.inodes));
    let candidates: Vec<TreeIndex> = others.map(|(tree, _)| *tree).chain(is_room_here.then(|| member.tree())).collect();
    match candidates.len() as u64 {
        0 => member.tree(),
        count => candidates[trees.around.env.random_below(count) as usize],
    }
}

/// Asks all others, and tells the tree what they have, if it has a quota.
pub async fn ask(siblings: &Siblings) -> Result<(), String> {
    let member = &siblings.member;
    let asked = siblings.others().map(|tree| async move { (tree, siblings.query(tree, Query::Usage).await) });
    for (tree, answer) in join_all(asked).await {
        let mut elsewhere = member.elsewhere.lock();
        match answer {
            Ok(Ok(Found::Usage(usage))) => drop(elsewhere.insert(tree, Told { usage, is_there: true })),
            _ => elsewhere.entry(tree).or_default().is_there = false,
        }
    }
    let (bytes, inodes) = {
        let elsewhere = member.elsewhere.lock();
        elsewhere.values().fold((0, 0), |(bytes, inodes), told| (bytes + told.usage.bytes, inodes + told.usage.inodes))
    };
    let (usage, known) = member.look(|machine| (machine.usage(), machine.used_elsewhere()));
    let has_quota = usage.quota_bytes.is_some() || usage.quota_inodes.is_some();
    if !has_quota || known == (bytes, inodes) {
        return Ok(());
    }
    let told = member.lead(member.now(), Command::SetElsewhere { bytes, inodes }).await;
    told.map_err(super::Outcome::reason)?.map(drop).map_err(|error| error.to_string())
}
