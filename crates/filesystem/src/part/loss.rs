//! Whether files would be lost with devices.

use std::collections::BTreeSet;

use subsystem::Loss;
use types::FileVolumeId;

use crate::asking::content::Standing;

/// What of a volume is lost with devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Nothing,
    /// All copies that are in sync.
    Contents,
    /// A group of it does not say where they are.
    Unknown,
}

/// Refuses the loss of devices where data partitions, each with the name of its volume, have their last copies, or may have them.
pub fn refuse(volumes: &[(String, Option<Standing>)], loss: &Loss) -> Result<(), String> {
    let are = |lost: Lost| {
        let names = volumes.iter().filter(|(_, standing)| lost_of(standing.as_ref(), loss) == lost);
        let names: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let (contents, unknown) = (are(Lost::Contents), are(Lost::Unknown));
    if !contents.is_empty() {
        return Err(format!(
            "the files of these volumes are on {} alone: {contents}. Copy them elsewhere and remove the volumes, or wait until another copy is in sync (trilith volume info); {} gives them up",
            loss.whose, loss.all_the_same
        ));
    }
    if !unknown.is_empty() {
        return Err(format!(
            "these volumes do not say now whether {} has their last copies: {unknown}. Try again when trilith volume info shows their copies; {} gives them up",
            loss.whose, loss.all_the_same
        ));
    }
    Ok(())
}

fn lost_of(standing: Option<&Standing>, loss: &Loss) -> Lost {
    let Some(Standing { record, .. }) = standing else { return Lost::Unknown };
    let mut in_sync = record.in_sync.iter().filter_map(|node| record.copies.get(node));
    // A partition without a copy has nothing yet.
    match record.copies.is_empty() || in_sync.any(|device| !loss.devices.contains(device)) {
        true => Lost::Nothing,
        false => Lost::Contents,
    }
}

/// The volumes that are asked, with their names.
pub fn asked(state: &manager::Snapshot) -> Vec<(FileVolumeId, String)> {
    let present = state.file_volumes().filter(|volume| !volume.is_removing);
    present.map(|volume| (volume.id, volume.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::{DeviceId, NodeId};

    use super::*;
    use crate::data::copies::record::Record;

    fn standing(copies: &[(u32, u32)], in_sync: &[u32]) -> Option<Standing> {
        let copies: BTreeMap<_, _> = copies.iter().map(|(node, device)| (NodeId(*node), DeviceId(*device))).collect();
        let in_sync = in_sync.iter().map(|node| NodeId(*node)).collect();
        Some(Standing { record: Record { copies, in_sync, ..Record::default() }, primary: None, is_serving: false })
    }

    fn loss(devices: &[u32]) -> Loss {
        let devices: BTreeSet<_> = devices.iter().map(|device| DeviceId(*device)).collect();
        Loss { devices, whose: "node a".to_owned(), all_the_same: "--force".to_owned() }
    }

    #[test]
    fn the_last_copy_in_sync_is_not_lost_unasked() {
        let three = [(1, 10), (2, 20), (3, 30)];
        let of = |standing: Option<Standing>, devices: &[u32]| lost_of(standing.as_ref(), &loss(devices));
        assert_eq!(of(standing(&three, &[1, 2, 3]), &[10, 20]), Lost::Nothing);
        assert_eq!(of(standing(&three, &[1, 2]), &[10, 20]), Lost::Contents, "the third copy is out");
        assert_eq!(of(standing(&[(1, 10)], &[1]), &[10, 11]), Lost::Contents);
        assert_eq!(of(standing(&[(1, 10)], &[1]), &[11]), Lost::Nothing);
        assert_eq!(of(standing(&[], &[]), &[11]), Lost::Nothing);
        assert_eq!(of(None, &[11]), Lost::Unknown);
        let twice = [("home".to_owned(), standing(&[(1, 10)], &[1])), ("home".to_owned(), standing(&[(2, 10)], &[2]))];
        assert!(refuse(&twice, &loss(&[10])).unwrap_err().contains("alone: home."), "two partitions of one volume");
        let refused = |standing| refuse(&[("home".to_owned(), standing)], &loss(&[10])).unwrap_err();
        assert!(refused(standing(&[(1, 10)], &[1])).contains("are on node a alone: home."));
        assert!(refused(None).contains("do not say now"));
        assert_eq!(refuse(&[("home".to_owned(), standing(&three, &[1, 2, 3]))], &loss(&[10])), Ok(()));
    }
}
