use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Env, Instant, SIMULATED_WALL_BASE_MS, core_index, set_core_index};

#[test]
fn real_clock_moves_forward_and_dates_are_of_this_century() {
    let env = Env::real_with_cores(3);
    let first = env.now();
    let second = env.now();
    assert!(second >= first);
    assert!(first > Instant::from_nanos(0));
    assert!(env.wall_clock_ms() > 1_700_000_000_000);
    assert_eq!(env.core_count(), 3);
    assert!(env.simulation().is_none());
}

#[test]
fn real_randomness_differs_from_call_to_call() {
    let env = Env::real();
    assert_ne!(env.random_u64(), env.random_u64());
    let (mut left, mut right) = ([0u8; 32], [0u8; 32]);
    env.fill_random(&mut left);
    env.fill_random(&mut right);
    assert_ne!(left, right);
}

#[tokio::test(start_paused = true)]
async fn simulated_clocks_follow_tokio_exactly() {
    let env = Env::simulated(7);
    let start = env.now();
    env.sleep(Duration::from_millis(1_500)).await;
    assert_eq!(env.now() - start, Duration::from_millis(1_500));
    assert_eq!(env.wall_clock_ms(), SIMULATED_WALL_BASE_MS + 1_500);

    let deadline = env.now() + Duration::from_micros(2_500);
    env.sleep_until(deadline).await;
    assert!(env.now() >= deadline);
    let reached = env.now();
    env.sleep_until(start).await;
    assert_eq!(env.now(), reached, "a deadline in the past takes no time");
}

/// Caught: true durations rounded down. A timer of a whole number of ms fires exactly then, and not up to 1 ms later as others do.
#[tokio::test(start_paused = true)]
async fn a_clock_that_drifts_has_gone_on_by_what_was_slept() {
    for (drift_ppm, shown) in [(1_000, 1_001_001), (200, 1_000_201), (0, 1_000_001), (-200, 999_801), (-1_000, 999_001)] {
        let env = Env::simulated(7);
        env.simulation().expect("simulated").set_clock_drift_ppm(drift_ppm);
        let (start, duration) = (env.now(), Duration::from_nanos(shown));
        env.sleep(duration).await;
        assert!(env.now() - start >= duration, "{drift_ppm} ppm");
        assert!(env.now() - start <= duration + Duration::from_millis(2), "{drift_ppm} ppm");
    }
}

#[tokio::test(start_paused = true)]
async fn wall_skew_moves_dates_but_not_the_time_line() {
    let env = Env::simulated(7);
    let before = env.now();
    let simulation = env.simulation().expect("simulated");
    simulation.set_wall_skew_ms(-90_000);
    assert_eq!(env.wall_clock_ms(), SIMULATED_WALL_BASE_MS - 90_000);
    simulation.set_wall_skew_ms(250);
    assert_eq!(env.wall_clock_us(), (SIMULATED_WALL_BASE_MS + 250) * 1_000);
    assert_eq!(env.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_continues_the_wall_clock() {
    let elapsed = Duration::from_secs(61);
    let env = Env::simulated_after(7, elapsed);
    assert_eq!(env.wall_clock_ms(), SIMULATED_WALL_BASE_MS + 61_000);
    assert_eq!(env.simulation().expect("simulated").elapsed(), elapsed);
}

/// Each start of a turmoil host has a runtime, and so a tokio clock, of its own.
#[test]
fn under_turmoil_time_is_simulated_and_goes_on_across_restarts() -> turmoil::Result {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut simulation = turmoil::Builder::new().simulation_duration(Duration::from_secs(60)).build();
    let host_seen = seen.clone();
    simulation.host("node", move || {
        let seen = host_seen.clone();
        async move {
            let started_after = turmoil::sim_elapsed().expect("within a simulation");
            let env = Env::simulated_after(1, started_after);
            loop {
                seen.lock().push((env.now(), env.wall_clock_ms()));
                env.sleep(Duration::from_secs(1)).await;
            }
        }
    });
    let step_until = |simulation: &mut turmoil::Sim<'_>, seconds| -> turmoil::Result {
        while simulation.elapsed() < Duration::from_secs(seconds) {
            simulation.step()?;
        }
        Ok(())
    };
    step_until(&mut simulation, 10)?;
    simulation.bounce("node");
    step_until(&mut simulation, 20)?;
    let seen = seen.lock();
    assert!((19..=22).contains(&seen.len()), "{} wake-ups in 20 simulated seconds", seen.len());
    assert!(seen.is_sorted(), "time went backwards");
    let (_, last_ms) = seen[seen.len() - 1];
    assert!((18_000..=20_000).contains(&(last_ms - SIMULATED_WALL_BASE_MS)), "{last_ms}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_seed_replays() {
    let draw = |seed| {
        let env = Env::simulated(seed);
        let mut bytes = [0u8; 16];
        env.fill_random(&mut bytes);
        (env.random_u64(), bytes, env.random_below(1_000))
    };
    assert_eq!(draw(42), draw(42));
    assert_ne!(draw(42), draw(43));
}

#[tokio::test(start_paused = true)]
async fn random_below_stays_below_and_reaches_both_ends() {
    let env = Env::simulated(1);
    let drawn: Vec<u64> = (0..1_000).map(|_| env.random_below(10)).collect();
    assert_eq!(drawn.iter().min(), Some(&0));
    assert_eq!(drawn.iter().max(), Some(&9));
    assert_eq!(env.random_below(1), 0);
}

#[test]
fn core_index_is_the_threads_own() {
    let env = Env::real();
    let on_core = std::thread::spawn(move || {
        set_core_index(5);
        (env.core_index(), core_index())
    });
    assert_eq!(on_core.join().expect("thread"), (5, 5));
    assert_eq!(core_index(), 0);
}

#[tokio::test]
async fn spawned_tasks_hand_back_their_result() {
    let env = Env::real();
    let task = env.spawn(async { 6 * 7 });
    assert_eq!(task.await.expect("task"), 42);
}

#[test]
fn instants_saturate_at_both_ends() {
    let early = Instant::from_nanos(10);
    let late = Instant::from_nanos(25);
    assert_eq!(late - early, Duration::from_nanos(15));
    assert_eq!(early - late, Duration::ZERO);
    assert_eq!(early.checked_duration_since(late), None);
    assert_eq!(early.saturating_sub(Duration::from_secs(1)), Instant::from_nanos(0));
    assert_eq!(early + Duration::MAX, Instant::from_nanos(u64::MAX));
}
