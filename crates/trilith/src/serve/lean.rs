//! Keeps the process lean: each thread that serves gives memory back that is free, and huge pages wait until the process is large.

use disk::GiveBack;
use s3::App;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often a thread looks.
const LOOK: Duration = Duration::from_secs(1);
/// After so many looks that found nothing done, all is given back, once.
const IDLE_LOOKS: u32 = 2;

/// What was done up to some moment; it differs if something was done in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Activity {
    answered_requests: u64,
    open_connections: u64,
    upload_bytes: u64,
}

/// What a look finds to do.
#[derive(Debug)]
struct Looks {
    before: Activity,
    idle: u32,
}

/// Looks until it is dropped.
pub async fn keep(app: Arc<App>) {
    let mut looks = Looks { before: activity(&app), idle: 0 };
    let mut is_large = false;
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        is_large = is_large || disk::use_huge_pages_when_large();
        if let Some(what) = looks.look(activity(&app)) {
            disk::give_back(what);
        }
    }
}

fn activity(app: &App) -> Activity {
    let stats = app.stats();
    Activity {
        answered_requests: stats.operations.iter().map(|operation| operation.requests).sum(),
        open_connections: stats.open_connections,
        upload_bytes: app.upload_memory().stats().used_bytes,
    }
}

impl Looks {
    fn look(&mut self, now: Activity) -> Option<GiveBack> {
        if std::mem::replace(&mut self.before, now) != now {
            self.idle = 0;
            return Some(GiveBack::Expired);
        }
        self.idle = self.idle.saturating_add(1);
        (self.idle == IDLE_LOOKS).then_some(GiveBack::All)
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, IDLE_LOOKS, Looks};
    use disk::GiveBack;

    #[test]
    fn a_busy_thread_gives_back_a_little_and_an_idle_one_all_once() {
        let idle = Activity { answered_requests: 7, open_connections: 1, upload_bytes: 0 };
        let mut looks = Looks { before: idle, idle: 0 };
        let mut found = |now, times| -> Vec<_> { (0..times).map(|_| looks.look(now)).collect() };
        let all_once = [vec![None; IDLE_LOOKS as usize - 1], vec![Some(GiveBack::All)], vec![None; 5]].concat();
        assert_eq!(found(idle, all_once.len()), all_once);
        let later = Activity { answered_requests: 8, ..idle };
        assert_eq!(found(later, 1), [Some(GiveBack::Expired)]);
        assert_eq!(found(later, all_once.len()), all_once);
        assert_eq!(found(Activity { upload_bytes: 1, ..later }, 1), [Some(GiveBack::Expired)]);
    }
}
