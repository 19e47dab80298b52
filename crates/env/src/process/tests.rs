use crate::Env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts up every 10 ms of its clock.
fn counting(env: &Env) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let (task, counted) = (env.clone(), count.clone());
    env.spawn(async move {
        loop {
            task.sleep(Duration::from_millis(10)).await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    count
}

#[tokio::test(start_paused = true)]
async fn a_process_stands_still_goes_on_and_ends() {
    let (world, env) = (Env::simulated(1), Env::simulated(2));
    let process = env.simulation().unwrap().process();
    let count = counting(&env);
    world.sleep(Duration::from_millis(105)).await;
    assert_eq!(count.load(Ordering::Relaxed), 10);
    process.pause();
    let before = env.now();
    world.sleep(Duration::from_secs(5)).await;
    assert_eq!(count.load(Ordering::Relaxed), 10);
    assert_eq!(env.now() - before, Duration::from_secs(5), "its clock goes on");
    let asked = env.within(std::future::ready(7));
    process.resume();
    assert_eq!(asked.await, 7);
    world.sleep(Duration::from_millis(25)).await;
    assert_eq!(count.load(Ordering::Relaxed), 13);
    process.end();
    process.ended().await;
    world.sleep(Duration::from_secs(1)).await;
    assert_eq!(count.load(Ordering::Relaxed), 13);
    assert_eq!(Arc::strong_count(&count), 1, "what the process held is dropped");
    assert!(env.spawn(async {}).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_clock_drifts_and_its_timers_with_it() {
    let (world, env) = (Env::simulated(1), Env::simulated(2));
    let simulation = env.simulation().unwrap();
    simulation.set_clock_drift_ppm(100_000);
    let (before, shown_before) = (world.now(), env.now());
    env.sleep(Duration::from_millis(1_100)).await;
    assert_eq!(world.now() - before, Duration::from_secs(1));
    assert_eq!(env.now() - shown_before, Duration::from_millis(1_100));
    simulation.set_clock_drift_ppm(-500_000);
    let (before, shown_before) = (world.now(), env.now());
    world.sleep(Duration::from_secs(2)).await;
    assert_eq!(env.now() - shown_before, Duration::from_secs(1));
    simulation.advance_clock(Duration::from_secs(60));
    assert_eq!(env.now() - shown_before, Duration::from_secs(61));
    assert_eq!(world.now() - before, Duration::from_secs(2));
}
