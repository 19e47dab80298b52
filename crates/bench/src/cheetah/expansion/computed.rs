//! What would move without volume groups: objects are where CRUSH says, so that a new node changes where they are.

use anyhow::Context;
use topology::{Branch, Leaf, Level, PlacementGroups, Rule, Tree, moved_copies};
use types::DeviceId;

use crate::cheetah::cluster::COPIES;
use crate::random::mix64;

const RULE: Rule = Rule { copies: COPIES, apart: Level::Host };
const WEIGHT: u64 = 1 << 20;

/// What has to be moved.
pub struct Move {
    pub name: &'static str,
    pub bytes: u64,
    pub copies: usize,
    pub all_copies: usize,
}

/// For objects with these numbers and lengths, when one more than so many nodes is there: by object, and by group.
pub fn moves(objects: &[(u64, usize)], nodes: usize) -> anyhow::Result<[Move; 2]> {
    let (before, after) = (tree(nodes)?, tree(nodes + 1)?);
    let groups = PlacementGroups::new(0, manager::PLACEMENT_GROUPS)?;
    let by_object = |tree: &Tree, number: u64| tree.select(mix64(number), RULE).context("placing an object");
    let by_group =
        |tree: &Tree, number: u64| groups.devices(groups.group_of(mix64(number)), tree, RULE, &[]).context("placing a group");
    let count = |name, place: &dyn Fn(&Tree, u64) -> anyhow::Result<Vec<DeviceId>>| {
        let mut found = Move { name, bytes: 0, copies: 0, all_copies: objects.len() * COPIES };
        for (number, length) in objects {
            let copies = moved_copies(&place(&before, *number)?, &place(&after, *number)?);
            found.copies += copies;
            found.bytes += (copies * length) as u64;
        }
        anyhow::Ok(found)
    };
    Ok([count("NoVG by object", &by_object)?, count("NoVG by 16 groups", &by_group)?])
}

fn tree(nodes: usize) -> anyhow::Result<Tree> {
    let leaf =
        |number: u32| Leaf { device: DeviceId(number), weight: WEIGHT, branch: Branch { host: number, ..Branch::default() } };
    Ok(Tree::new(&(1..=nodes as u32).map(leaf).collect::<Vec<Leaf>>())?)
}

#[cfg(test)]
mod tests {
    use super::moves;

    #[test]
    fn a_ninth_node_gets_about_a_ninth_of_all_copies() {
        let objects: Vec<(u64, usize)> = (0..3000).map(|number| (number, 100)).collect();
        let [by_object, by_group] = moves(&objects, 8).expect("places");
        let share = by_object.copies as f64 / by_object.all_copies as f64;
        assert!((0.10..0.14).contains(&share), "{share}");
        assert_eq!(by_object.bytes, by_object.copies as u64 * 100);
        assert!(by_group.copies > 0, "some group is on the new node");
    }
}
