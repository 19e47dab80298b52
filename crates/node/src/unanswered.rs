//! Targets that leave everything unanswered though their nodes answer pings: a connection that carries small messages and no large ones, or a process that is half dead.
//! Heartbeats report their devices, as those of nodes that can't be reached; else each write would wait for them, for as long as that lasts.
//!
//! A disk that hangs, or is slow, is none of them: its target answers what it can from memory, and its own node says what is wrong with it.

use env::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use target::limits::CALL_DEADLINE;
use types::{DeviceId, NodeId};

/// Nothing was answered for so long, by a node that answers pings. Longer than any question waits that was asked before a link was whole again.
const UNANSWERED: Duration = Duration::from_secs(12);
const _: () = assert!(UNANSWERED.as_secs() > CALL_DEADLINE.as_secs());
/// Who has not looked for longer has stood still, and has not seen what was answered meanwhile.
const OWN_STANDSTILL: Duration = Duration::from_secs(2);

/// Since when other nodes have answered all pings.
#[derive(Default)]
pub(crate) struct Unanswered {
    heard_since: BTreeMap<NodeId, Instant>,
    looked_at: Option<Instant>,
}

impl Unanswered {
    /// Devices of which nothing is to be heard, of those that owe answers. `silent`: of the nodes that were asked those that don't answer pings either.
    pub fn look(
        &mut self,
        now: Instant,
        asked: impl Iterator<Item = NodeId>,
        silent: &BTreeSet<NodeId>,
        owing: &BTreeMap<DeviceId, Instant>,
        node_of: impl Fn(DeviceId) -> Option<NodeId>,
    ) -> BTreeSet<DeviceId> {
        let last = self.looked_at.replace(now);
        if last.is_none_or(|last| now - last > OWN_STANDSTILL) {
            self.heard_since.clear();
        }
        let heard = asked.filter(|node| !silent.contains(node));
        self.heard_since = heard.map(|node| (node, self.heard_since.get(&node).copied().unwrap_or(now))).collect();
        let is_unanswered = |device: DeviceId, since: Instant| {
            let heard_since = node_of(device).and_then(|node| self.heard_since.get(&node).copied());
            heard_since.is_some_and(|heard_since| now.saturating_duration_since(since.max(heard_since)) >= UNANSWERED)
        };
        owing.iter().filter(|(device, since)| is_unanswered(**device, **since)).map(|(device, _)| *device).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::Env;

    const LOOK: Duration = Duration::from_millis(250);
    const DEVICE: DeviceId = DeviceId(7);
    const NODE: NodeId = NodeId(2);

    struct Scene {
        unanswered: Unanswered,
        now: Instant,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { unanswered: Unanswered::default(), now: Env::simulated(1).now() + Duration::from_secs(1_000) }
        }

        /// Time passes; whether the device is reported at its end.
        fn pass(&mut self, time: Duration, is_silent: bool, owes_since: Option<Instant>) -> bool {
            let until = self.now + time;
            loop {
                self.now = self.now + LOOK;
                let silent = if is_silent { BTreeSet::from([NODE]) } else { BTreeSet::new() };
                let owing = owes_since.map(|since| (DEVICE, since)).into_iter().collect();
                let node_of = |device| (device == DEVICE).then_some(NODE);
                let reported = self.unanswered.look(self.now, [NODE].into_iter(), &silent, &owing, node_of);
                if self.now >= until {
                    return reported.contains(&DEVICE);
                }
            }
        }
    }

    #[test]
    fn a_target_is_reported_that_answers_nothing_beside_pings_for_long() {
        let mut scene = Scene::new();
        assert!(!scene.pass(UNANSWERED * 2, false, None));
        let since = Some(scene.now);
        assert!(!scene.pass(UNANSWERED - LOOK, false, since));
        assert!(scene.pass(LOOK, false, since));
        assert!(!scene.pass(LOOK, false, None), "it has answered something");
    }

    #[test]
    fn nobody_is_reported_for_a_link_that_is_whole_again_nor_for_ones_own_pause() {
        let mut scene = Scene::new();
        let since = Some(scene.now);
        assert!(!scene.pass(UNANSWERED * 3, true, since), "its node is silent, which pings tell");
        assert!(!scene.pass(UNANSWERED, false, since), "what was asked before may still wait");
        assert!(scene.pass(LOOK, false, since));
        let mut scene = Scene::new();
        scene.pass(UNANSWERED, false, None);
        let since = Some(scene.now);
        scene.now = scene.now + UNANSWERED * 2;
        assert!(!scene.pass(LOOK, false, since), "nothing was seen of what was answered meanwhile");
    }
}
