//! Power cuts after every operation of a seeded workload. What was acknowledged is found, by a walk and by a read, at its place
//! and position; what is found was appended; what was certainly refused is not found. And the proof that the test can fail:
//! on a disk that lies about durability it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use disk::{CompletionOrder, SimDisk};
use env::Env;
use types::Activation;

use super::support::{Answers, Seeded, append, disk_with, format, now, open, payload, quiet, walked};
use crate::{AppendClass, AppendError, Device, DeviceConfig, LogVector, ZoneState};

const ZONES: u64 = 16;
const APPENDS: u64 = 70;
/// Lengths of what each class appends in the life after a cut.
const SECOND_LIFE_BYTES: [usize; 3] = [500, 9000, 20];

/// What was asked and what was answered until the power was cut, or until the end.
struct History {
    seed: u64,
    disk: SimDisk,
    env: Env,
    submitted: BTreeMap<u64, AppendClass>,
    answers: Arc<Answers>,
    /// Activations of zones whose reset was started: their frames may be gone or not.
    reset: BTreeSet<Activation>,
    mutations: u64,
}

fn soak() -> u64 {
    if std::env::var_os("TRILITH_SOAK").is_some() { 20 } else { 1 }
}

fn run_workload(seed: u64, cut_after: Option<u64>, liar: bool) -> History {
    let env = Env::simulated(seed);
    let disk = disk_with(&env, seed, ZONES);
    format(&disk, &env);
    let prewrite_zones = (seed % 3) as usize;
    let device = open(&disk, &env, DeviceConfig { prewrite_zones, ..quiet() });
    disk.set_ignores_flush(liar);
    disk.set_order(CompletionOrder::Stepped);
    let start = disk.mutations();
    if let Some(cut_after) = cut_after {
        disk.power_cut_after(cut_after);
    }
    let mut history = History {
        seed,
        disk: disk.clone(),
        env,
        submitted: BTreeMap::new(),
        answers: Arc::default(),
        reset: BTreeSet::new(),
        mutations: 0,
    };
    let mut seeded = Seeded(seed);
    for number in 0..APPENDS {
        let class = AppendClass::ALL[seeded.below(4) as usize];
        let most = [300, 300, 9000, 20_000][seeded.below(4) as usize];
        let len = seeded.below(most) as usize;
        if append(&device, class, number, len, &history.answers).is_ok() {
            history.submitted.insert(number, class);
        }
        match seeded.below(24) {
            0 => start_reset(&device, &mut seeded, &mut history.reset),
            1 => drop(now(device.finish_open_zones())),
            _ => {}
        }
        for _ in 0..seeded.below(4) {
            disk.step();
        }
    }
    disk.run_until_idle();
    history.mutations = disk.mutations() - start;
    history
}

fn start_reset(device: &Device, seeded: &mut Seeded, reset: &mut BTreeSet<Activation>) {
    let zones = device.zones();
    let finished: Vec<_> = zones.iter().filter(|zone| zone.state == Some(ZoneState::Finished)).collect();
    if finished.is_empty() {
        return;
    }
    let zone = finished[seeded.below(finished.len() as u64) as usize];
    reset.insert(zone.activation);
    // Started, and dropped: it goes on by itself, or never started because its zone was still being written.
    drop(now(device.reset(zone.zone)));
}

/// What is wrong after the cut; empty if all is well.
fn check(history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    let disk = if history.disk.power_is_cut() { history.disk.restart() } else { history.disk.crash() };
    disk.set_order(CompletionOrder::Inline);
    disk.set_ignores_flush(false);
    let device = open(&disk, &history.env, quiet());
    let (found, _) = walked(&device, &LogVector::START);
    let landed_before = history.answers.landed();
    for (number, appended) in &landed_before {
        if history.reset.contains(&appended.position.activation) {
            continue;
        }
        if found.get(number) != Some(appended) {
            wrong.push(format!("append {number} was acknowledged at {appended:?}, found {:?}", found.get(number)));
            continue;
        }
        match now(device.read(appended.place, 100)).expect("the disk answers") {
            Ok(frame) if frame.payload() == payload(*number, frame.payload().len()) => {}
            other => wrong.push(format!("append {number} at {appended:?} reads {other:?}")),
        }
    }
    for (number, appended) in &found {
        if !history.submitted.contains_key(number) {
            wrong.push(format!("append {number} is found at {appended:?} and was never accepted"));
        }
        if let Some(Err(error)) = history.answers.get(*number)
            && error.is_certain()
        {
            wrong.push(format!("append {number} was refused ({error}) and is found at {appended:?}"));
        }
    }
    check_second_life(history, &device, &disk, &found, &mut wrong);
    wrong
}

/// The device goes on: new appends come after all others, and everything is found a second time where it was.
fn check_second_life(
    history: &History,
    device: &Device,
    disk: &SimDisk,
    found: &BTreeMap<u64, crate::Appended>,
    wrong: &mut Vec<String>,
) {
    let mut more = 0;
    let appends = SECOND_LIFE_BYTES.iter().flat_map(|len| AppendClass::ALL.map(|class| (class, *len)));
    for (index, (class, len)) in appends.enumerate() {
        let number = 1_000_000 + index as u64;
        let answers = Arc::new(Answers::default());
        let floor = device.log_floor().of(Some(class.stream()));
        let refused = append(device, class, number, len, &answers).err();
        let later = match refused.map_or_else(|| answers.get(number).expect("an inline disk answers"), Err) {
            Ok(later) => later,
            // The workload may have filled the device up.
            Err(AppendError::Full { .. }) => continue,
            Err(error) => panic!("seed {}: {error}", history.seed),
        };
        more += 1;
        if later.position < floor {
            wrong.push(format!("{later:?} stands below the floor {floor:?}"));
        }
        for (earlier, appended) in found {
            if history.submitted.get(earlier).map(|class| class.stream()) == Some(class.stream())
                && appended.position >= later.position
            {
                wrong.push(format!("append {earlier} at {appended:?} stands after {later:?}"));
            }
        }
    }
    let survivor = disk.crash();
    let again = open(&survivor, &history.env, quiet());
    let (found_again, _) = walked(&again, &LogVector::START);
    for (number, appended) in found {
        if found_again.get(number) != Some(appended) {
            wrong.push(format!("append {number} was at {appended:?}, and after another crash {:?}", found_again.get(number)));
        }
    }
    if found_again.len() != found.len() + more {
        wrong.push(format!("{} frames, after {more} more and a crash {}", found.len(), found_again.len()));
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_appends_survive_a_power_cut_after_every_operation() {
    let mut landed = 0;
    let mut zones_reset = 0;
    for seed in 1..=5 * soak() {
        let whole = run_workload(seed, None, false);
        landed += whole.answers.landed().len();
        zones_reset += whole.reset.len();
        assert!(whole.mutations > 50, "seed {seed}: only {} operations", whole.mutations);
        for cut_after in 0..=whole.mutations {
            let wrong = check(&run_workload(seed, Some(cut_after), false));
            assert!(wrong.is_empty(), "seed {seed}, cut after {cut_after}: {wrong:#?}");
        }
        let wrong = check(&whole);
        assert!(wrong.is_empty(), "seed {}, cut at the end: {wrong:#?}", whole.seed);
    }
    assert!(landed as u64 > APPENDS * 2, "most appends land: {landed}");
    assert!(zones_reset > 0, "some zones are reset");
}

#[tokio::test(start_paused = true)]
async fn the_same_test_fails_on_a_disk_that_lies_about_durability() {
    let mut noticed = 0;
    for seed in 1..=8 {
        let whole = run_workload(seed, None, true);
        // In the middle and at the end: much is acknowledged and nothing durable.
        for cut_after in [whole.mutations / 2, whole.mutations] {
            noticed += usize::from(!check(&run_workload(seed, Some(cut_after), true)).is_empty());
        }
    }
    assert!(noticed > 12, "a lying disk is noticed: {noticed} times of 16");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_without_a_power_cut_loses_nothing() {
    for seed in 1..=20 * soak() {
        let env = Env::simulated(seed);
        let disk = disk_with(&env, seed, ZONES);
        format(&disk, &env);
        let device = open(&disk, &env, quiet());
        disk.set_order(CompletionOrder::Stepped);
        let answers = Arc::new(Answers::default());
        let mut seeded = Seeded(seed);
        for number in 0..30 {
            let class = AppendClass::ALL[seeded.below(4) as usize];
            append(&device, class, number, seeded.below(5000) as usize, &answers).expect("starts");
            for _ in 0..seeded.below(3) {
                disk.step();
            }
        }
        let acknowledged = answers.landed();
        drop(device);
        let next = disk.restart();
        next.set_order(CompletionOrder::Inline);
        let device = open(&next, &env, quiet());
        let (found, damaged) = walked(&device, &LogVector::START);
        assert_eq!(damaged, Vec::<String>::new(), "seed {seed}");
        for (number, appended) in acknowledged {
            assert_eq!(found.get(&number), Some(&appended), "seed {seed}, append {number}");
        }
        // Writes that the process did not live to see durable may be found. From then on they count.
        drop(device);
        let device = open(&next.crash(), &env, quiet());
        let (found_again, _) = walked(&device, &LogVector::START);
        assert_eq!(found_again, found, "seed {seed}: found by a start, and lost with the power after it");
    }
}
