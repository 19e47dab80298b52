//! For how long a holder that hears nothing of the manager goes on (docs/rfd/0024, rule 14).

use super::opened::Opened;
use std::cmp::Ordering;
use std::time::Duration;

/// How long a holder serves after the moment at which the manager's record last named its token.
pub const TENURE: Duration = Duration::from_secs(3);
/// Between two looks at the record.
const TENURE_RENEWAL: Duration = Duration::from_millis(500);
/// After so long a holder that could not renew its tenure serves no more, also if its clock is slower by a tenth.
pub const TENURE_OVER: Duration = Duration::from_millis(TENURE.as_millis() as u64 * 11 / 10);

const _: () = assert!(TENURE_RENEWAL.as_millis() * 4 <= TENURE.as_millis());

impl Opened {
    /// Renews the tenure of all images that are open here, for as long as the node lives.
    pub async fn keep_tenures(&self) {
        let env = &self.around.env;
        loop {
            tokio::select! {
                biased;
                () = self.begun.notified() => {}
                () = env.sleep(TENURE_RENEWAL) => {}
            }
            // The record is looked at after this moment: another holder is named later.
            let noted = env.now();
            let images = self.open_images();
            if images.is_empty() || !self.hears_manager().await {
                continue;
            }
            let state = self.around.manager.snapshot();
            for open in images {
                let image = open.image();
                match state.image(image.id()).map(|record| record.token.cmp(&image.token())) {
                    Some(Ordering::Equal) => image.extend_tenure(noted + TENURE),
                    // It may have asked no store since: nothing else tells it.
                    Some(Ordering::Greater) => image.supersede(),
                    Some(Ordering::Less) | None => {}
                }
            }
        }
    }

    async fn hears_manager(&self) -> bool {
        tokio::select! {
            fresh = self.around.manager.fresh() => fresh.is_ok(),
            () = self.around.env.sleep(TENURE) => false,
        }
    }
}
