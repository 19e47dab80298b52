//! A check of what the devices of a stopped server of its own have: the groups are opened as a start opens them.

use ::engine::EngineError;

use crate::limits::{CHECK_PATIENCE, PRIMARY_PAUSE};
use crate::part::Objects;
use crate::place::Place;
use crate::store::{CheckReport, Store};

impl Objects {
    /// Checks all groups, as soon as each is open. One that can't be opened is a finding.
    pub async fn check(&self) -> CheckReport {
        let mut report = CheckReport::default();
        let place = self.place();
        let groups: Vec<u32> = place.manager().snapshot().placements().map(|record| record.group).collect();
        for group in groups {
            match opened(place, group).await {
                Ok(store) => store.check_all(&mut report).await,
                Err(error) => report.add(format!("placement group {group}: {error}")),
            }
        }
        report
    }
}

/// A group, when it is open.
async fn opened(place: &Place, group: u32) -> Result<Store, EngineError> {
    let until = place.env().now() + CHECK_PATIENCE;
    loop {
        if let Some(office) = place.office(group) {
            return Ok(office.store.clone());
        }
        if let Some(obstacle) = place.obstacle(group) {
            return Err(obstacle);
        }
        if place.env().now() >= until {
            let reason = format!("it was not open after {} s", CHECK_PATIENCE.as_secs());
            return Err(EngineError::Unavailable { reason });
        }
        place.env().sleep(PRIMARY_PAUSE).await;
    }
}
