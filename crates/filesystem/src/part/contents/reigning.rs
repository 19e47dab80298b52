//! When a member of a data partition's group leads it: it serves the partition as its primary, or hands over to a node that can.
//!
//! ```text
//!   follows ── elected, caught up ─┬─ its copy is in sync ─► reigns ── not elected any more, its device fails ─► follows
//!                                  └─ its copy is out ─► hands over ─► follows
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use env::Env;
use types::{DeviceId, NodeId};

use super::copying::NodeWays;
use super::member::ContentMember;
use crate::data::copies::record::{Command, Record, RecordChange};
use crate::data::copies::reign::{Over, Realm, RecordDoor, Reign};
use crate::part::placing::copies::{copies_on, takers};

/// Between two looks whether this node leads.
const LOOK: Duration = Duration::from_millis(100);
/// After a hand-over that may not have worked.
const REST: Duration = Duration::from_millis(500);

/// For as long as the member lives.
pub async fn reign_when_leading(env: Env, weak: Weak<ContentMember>) {
    // The term whose reign has ended: there is no second one, since its sessions would be counted anew.
    let mut ended = None;
    loop {
        env.sleep(LOOK).await;
        let Some(member) = weak.upgrade() else { return };
        if !member.group().status().is_leader {
            continue;
        }
        let Some(term) = member.door().catch_up().await else { continue };
        let reign = if ended == Some(term) { None } else { begin(&member, term).await };
        let Some(reign) = reign else {
            member.hand_over().await;
            drop(member);
            env.sleep(REST).await;
            continue;
        };
        tracing::info!(partition = member.partition().0, term, "this node serves a data partition");
        member.set_reign(Some(reign.clone()));
        let wanted = wanted_copies(&member);
        // The group ends here when nobody else has it.
        drop(member);
        tokio::select! {
            over = serve(&reign, wanted) => tracing::debug!(?over, term, "a primary has ended"),
            () = until_deposed(&env, &weak, &reign) => {}
        }
        reign.end();
        ended = Some(term);
        if let Some(member) = weak.upgrade() {
            member.set_reign(None);
        }
    }
}

async fn serve(reign: &Arc<Reign>, wanted: impl Fn(&Record) -> BTreeMap<NodeId, DeviceId>) -> Result<(), Over> {
    reign.take_over().await?;
    reign.keep(wanted).await
}

/// A reign, if this node's copy is in sync. The first leader of a partition makes the first copy.
async fn begin(member: &Arc<ContentMember>, term: u64) -> Option<Arc<Reign>> {
    let (door, me) = (member.door(), member.around().me);
    if door.record().copies.is_empty() {
        let device = first_device(member)?;
        let change = RecordChange::Found { node: me, device };
        let founded = door.commit(Command { reign: term, change }).await;
        if founded != Ok(Ok(())) {
            tracing::debug!(partition = member.partition().0, ?founded, "a data partition has no copy yet");
            return None;
        }
    }
    let record = door.record();
    let device = *record.copies.get(&me).filter(|_| record.in_sync.contains(&me))?;
    let own = member.keeper(device)?;
    if own.store().is_stuck() && record.in_sync.len() > 1 {
        return None;
    }
    let realm = Realm {
        env: member.around().env.clone(),
        me,
        partition: member.partition().0,
        own,
        door: Arc::new(door),
        ways: Arc::new(NodeWays { around: member.around().clone(), partition: member.partition() }),
    };
    Some(Reign::new(realm, term))
}

/// Where this node makes the first copy: on the device that the manager's record says, or the one with the most room.
fn first_device(member: &ContentMember) -> Option<DeviceId> {
    let state = member.around().manager.snapshot();
    let mut said = member.at().find(&state).into_iter().flat_map(|partition| &partition.devices);
    let is_well = |device: &&DeviceId| member.stores().get(**device).is_some_and(|store| !store.is_stuck());
    said.find(is_well).copied().or_else(|| member.stores().roomiest())
}

/// Until this node does not lead any more in the reign's term, or its device takes no writes while another copy is in sync.
async fn until_deposed(env: &Env, member: &Weak<ContentMember>, reign: &Reign) {
    loop {
        env.sleep(LOOK).await;
        let Some(member) = member.upgrade() else { return };
        let status = member.group().status();
        let leads = status.is_leader && status.term.0 == reign.term();
        if !leads || reign.is_over() || reign.is_stuck() {
            return;
        }
    }
}

/// Which copies there are to be: one on each member of the group that has a device for it, and the primary's own.
fn wanted_copies(member: &ContentMember) -> impl Fn(&Record) -> BTreeMap<NodeId, DeviceId> + use<> {
    let (manager, at, me) = (member.around().manager.clone(), member.at(), member.around().me);
    move |record| {
        let state = manager.snapshot();
        let members = state.group(at.partition.group()).map(|group| group.members.clone()).unwrap_or_default();
        let said = at.find(&state).map(|partition| partition.devices.clone()).unwrap_or_default();
        let mut copies = copies_on(&members, &takers(&state), at.partition, &said, &record.copies);
        copies.extend(record.copies.get_key_value(&me));
        copies
    }
}
