//! Which images lack copies, and which would lose their last ones with devices.

use super::placing::host_in;
use manager::{ImageRecord, Snapshot};
use std::sync::Arc;
use subsystem::Loss;

/// Refuses the loss of devices if a blob may have no copy on others.
pub fn check(state: &Snapshot, loss: &Loss) -> Result<(), String> {
    let Loss { devices, whose, all_the_same } = loss;
    let is_lost = |image: &&Arc<ImageRecord>| {
        let in_sync = image.devices.iter().filter(|used| used.out_since.is_none()).map(|used| used.device);
        !image.survives(in_sync.filter(|device| devices.contains(device)).map(|device| (device, host_in(state, device))))
    };
    match state.images().filter(is_lost).count() {
        0 => Ok(()),
        count => Err(format!(
            "{count} images may have blobs on {whose} alone. Wait until they have more copies (trilith image info), or export them (trilith image \
             export); {all_the_same} gives them up"
        )),
    }
}

/// What a person is to know of images that lack copies; none: there are none.
pub fn shortage(images: &[&Arc<ImageRecord>]) -> Option<String> {
    let count = |lacks: fn(&ImageRecord) -> bool| images.iter().filter(|image| lacks(image)).count();
    let parts = [
        (count(|image| image.devices.iter().any(|used| used.out_since.is_some())), "have devices that are out"),
        (count(|image| image.redundancy.devices < image.copies), "have parts with fewer copies than they shall have"),
        (count(|image| image.has_losses), "have lost parts"),
    ];
    let told: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    (!told.is_empty()).then(|| format!("{} (trilith image ls)", told.join("; ")))
}

#[cfg(test)]
mod tests;
