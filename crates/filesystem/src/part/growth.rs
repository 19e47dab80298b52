//! Volumes get another tree when the newest one has many inodes (docs/rfd/0031). The node that leads that tree asks the manager for it.
//!
//! New directories go to trees below the limit from then on. Nothing is moved.

use std::sync::Arc;
use std::time::Duration;

use manager::{FileVolumeRecord, MAX_FILE_TREES, Snapshot};
use subsystem::Surroundings;

use super::trees::{TreeMember, Trees};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// The work, on one node.
pub struct Growth {
    pub around: Surroundings,
    pub trees: Arc<Trees>,
}

impl Growth {
    /// For as long as the node lives.
    pub async fn run(self) {
        loop {
            self.around.env.sleep(LOOK).await;
            let state = self.around.manager.snapshot();
            for member in self.trees.all().into_iter().filter(|member| member.leads()) {
                if let Some(volume) = self.to_grow(&state, &member) {
                    self.grow(volume).await;
                }
            }
        }
    }

    /// The volume that is to get a tree, by the leader of its newest one.
    fn to_grow<'a>(&self, state: &'a Snapshot, member: &TreeMember) -> Option<&'a Arc<FileVolumeRecord>> {
        let (volume, at) = state.file_tree(member.id())?;
        let may_grow = at + 1 == volume.trees.len() && at + 1 < MAX_FILE_TREES && !volume.is_removing;
        let has_many = || self.trees.is_full(member.look(|machine| machine.usage().inodes));
        (may_grow && has_many()).then_some(volume)
    }

    async fn grow(&self, volume: &FileVolumeRecord) {
        // The number of trees that it has seen says that no other one was added meanwhile.
        match self.around.manager.add_file_tree(volume.id, volume.trees.len() as u32).await {
            Ok(grown) => tracing::info!(volume = volume.name, trees = grown.trees.len(), "a volume gets another tree"),
            Err(error) => tracing::warn!(volume = volume.name, %error, "a volume does not get another tree now"),
        }
    }
}
