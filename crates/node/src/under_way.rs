//! Work that is asked for again while it is under way. It goes on when nobody waits for it any more, and who asks again waits for its end: what takes longer
//! than a question may would begin anew with each of them, and never end.

use crate::node::Ending;
use env::Env;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// What is under way, by what was asked for. It ends when this is dropped.
pub(crate) struct UnderWay<K, T: Clone>(Mutex<BTreeMap<K, Work<T>>>);

struct Work<T: Clone> {
    /// None: it was ended.
    outcome: Shared<BoxFuture<'static, Option<T>>>,
    task: Ending,
}

impl<K: Ord, T: Clone + Send + Sync + 'static> UnderWay<K, T> {
    pub fn new() -> UnderWay<K, T> {
        UnderWay(Mutex::default())
    }

    /// What comes of the work that is under way for `key`, or of this one, which begins if there is none. None if it was ended.
    pub async fn outcome(&self, env: &Env, key: K, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let outcome = {
            let mut all = self.0.lock();
            all.retain(|_, work| !work.task.has_ended());
            all.entry(key).or_insert_with(|| begin(env, work)).outcome.clone()
        };
        outcome.await
    }
}

fn begin<T: Clone + Send + Sync + 'static>(env: &Env, work: impl Future<Output = T> + Send + 'static) -> Work<T> {
    let (tell, told) = oneshot::channel();
    // Nobody may wait any more.
    let task = Ending(env.spawn(async move { drop(tell.send(work.await)) }));
    Work { outcome: told.map(Result::ok).boxed().shared(), task }
}

#[cfg(test)]
mod tests {
    use super::UnderWay;
    use env::Env;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_that_takes_longer_than_a_question_ends_and_is_begun_once() {
        let (env, all, begun) = (Env::simulated(1), UnderWay::new(), Arc::new(AtomicU32::new(0)));
        let work = |name: &'static str| {
            let (env, begun) = (env.clone(), begun.clone());
            async move {
                begun.fetch_add(1, Ordering::Relaxed);
                env.sleep(5 * SECOND).await;
                name
            }
        };
        let ask = |key: u8, name| tokio::time::timeout(3 * SECOND, all.outcome(&env, key, work(name)));
        assert!(ask(7, "first").await.is_err(), "it takes longer");
        assert_eq!(ask(7, "second").await, Ok(Some("first")));
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        // What has ended begins again; other work is other work.
        let (again, other) = (all.outcome(&env, 7, work("third")), all.outcome(&env, 8, work("other")));
        assert_eq!(futures_util::join!(again, other), (Some("third"), Some("other")));
    }
}
