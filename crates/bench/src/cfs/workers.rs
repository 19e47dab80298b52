//! Threads that do the same at the same time.

use crate::clock;
use std::sync::Barrier;
use std::time::Duration;

/// Runs `work` with the numbers of so many workers, all at once. Says how long it took from the moment when all could begin until the last
/// one had ended. The first failure ends it, once all have ended.
pub fn together(workers: usize, work: impl Fn(usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<Duration> {
    let (start, work) = (Barrier::new(workers), &work);
    let mut ends = Vec::new();
    std::thread::scope(|scope| {
        let spawn = |worker| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                let began = clock::now();
                work(worker).map(|()| (began, clock::now()))
            })
        };
        let running: Vec<_> = (0..workers).map(spawn).collect();
        ends = running.into_iter().map(|run| run.join().expect("a worker does not panic")).collect();
    });
    let times = ends.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let began = times.iter().map(|(began, _)| *began).min();
    let ended = times.iter().map(|(_, ended)| *ended).max();
    Ok(began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended.saturating_duration_since(began)))
}

/// Things a second.
pub fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}
