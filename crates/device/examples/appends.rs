//! Measures a device on a real file: appends of 4.3 KiB frames by 1, 16 and 64 who wait for each, reads of them from the page
//! cache, and a walk over all.
//!
//! `cargo run -p device --release --example appends -- FILE [SECONDS]` formats FILE. One core: a current-thread runtime with a ring,
//! which is how a gateway's core works.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use device::{AppendClass, Appended, Device, DeviceConfig, FormatOptions, LogVector, Tried, WalkEvent};
use disk::{FileDisk, OpenOptions, install_ring};
use env::{Env, Instant};
use format::frame::{self, frame_bytes};
use hdrhistogram::Histogram;
use types::{CellId, ClusterId, DeviceId};

const ENGINE_HEADER_BYTES: usize = 200;
const PAYLOAD_BYTES: usize = 4096;
const DEVICE_BYTES: u64 = 12 << 30;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().expect("usage: appends FILE [SECONDS]"));
    let seconds: u64 = arguments.next().map_or(3, |text| text.parse().expect("a number"));
    let env = Env::real_with_cores(1);
    compose_costs(&env);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let ring = install_ring();
        println!("ring: {}", ring.as_ref().map_or_else(|error| error.to_string(), |_| "yes".to_owned()));
        let device = Arc::new(open(&env, &path).await);
        env.sleep(Duration::from_secs(2)).await;
        let mut places = Vec::new();
        for waiters in [1, 16, 64] {
            places.extend(appends(&env, &device, waiters, Duration::from_secs(seconds)).await);
        }
        println!("prewritten {} MiB", device.stats().prewritten_bytes.get() >> 20);
        reads(&env, &device, &places);
        large(&env, &device, Duration::from_secs(seconds)).await;
        walks(&env, &device, false).await;
        walks(&env, &device, true).await;
        drop(device);
        drop(ring);
    });
    std::fs::remove_file(&path).expect("the file goes");
}

async fn open(env: &Env, path: &Path) -> Device {
    let options = OpenOptions { create: true, capacity_bytes: Some(DEVICE_BYTES), ..OpenOptions::default() };
    let disk = Arc::new(FileDisk::open(path, &options).expect("opens"));
    let format = FormatOptions {
        cluster: ClusterId([1; 16]),
        device: DeviceId(1),
        cell: CellId(1),
        zone_bytes: None,
        capacity_bytes: None,
        overwrite: true,
    };
    Device::format(&*disk, env, &format).await.expect("formats");
    Device::open(disk, env, DeviceConfig::default()).await.expect("opens")
}

fn compose_costs(env: &Env) {
    let header = [7; ENGINE_HEADER_BYTES];
    let payload = [9; PAYLOAD_BYTES];
    let mut slot = vec![0; frame_bytes(header.len(), payload.len())];
    let seal = frame::Seal { device: DeviceId(1), seed: 5, activation: types::Activation(3), offset: types::ZoneOffset(9) };
    let rounds = 200_000;
    let nanos = |started: Instant| (env.now() - started).as_nanos() as f64 / f64::from(rounds);
    let started = env.now();
    for _ in 0..rounds {
        frame::compose(&mut slot, 1, CellId(1), &header, &[&payload]);
        std::hint::black_box(&mut slot);
    }
    let compose = nanos(started);
    let started = env.now();
    for _ in 0..rounds {
        frame::seal(&mut slot, &seal);
        std::hint::black_box(&mut slot);
    }
    let sealing = nanos(started);
    let started = env.now();
    for _ in 0..rounds {
        let view = frame::open(std::hint::black_box(&slot), &seal).expect("opens");
        frame::verify_payload(&slot, &view, &slot[view.payload()], 0).expect("verifies");
    }
    println!("frame of 4 KiB: compose {compose:.0} ns, seal {sealing:.0} ns, open and verify {:.0} ns", nanos(started));
}

async fn appends(env: &Env, device: &Arc<Device>, waiters: u8, duration: Duration) -> Vec<Appended> {
    let batches_before = device.stats().batches.get();
    let started = env.now();
    let tasks: Vec<_> = (0..waiters)
        .map(|waiter| {
            let (env, device) = (env.clone(), device.clone());
            tokio::spawn(async move {
                let mut landed = Vec::new();
                let mut latencies = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).expect("bounds");
                while env.now() - started < duration {
                    let asked = env.now();
                    landed.push(append(&device, waiter).await);
                    latencies.saturating_record((env.now() - asked).as_micros() as u64);
                }
                (landed, latencies)
            })
        })
        .collect();
    let mut landed = Vec::new();
    let mut latencies = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3).expect("bounds");
    for task in tasks {
        let (places, more) = task.await.expect("a waiter ends well");
        landed.extend(places);
        latencies.add(more).expect("the same digits");
    }
    let elapsed = (env.now() - started).as_secs_f64();
    let batches = device.stats().batches.get() - batches_before;
    println!(
        "{waiters:>3} waiters: {:>8.0} appends/s, p50 {:>5} us, p99 {:>6} us, {:.1} frames a write, waited {} times for a zone",
        landed.len() as f64 / elapsed,
        latencies.value_at_quantile(0.5),
        latencies.value_at_quantile(0.99),
        landed.len() as f64 / batches as f64,
        device.stats().zone_waits.get(),
    );
    landed
}

async fn append(device: &Device, byte: u8) -> Appended {
    let compose = |slot: &mut [u8]| {
        frame::compose(slot, 1, CellId(1), &[byte; ENGINE_HEADER_BYTES], &[&[byte; PAYLOAD_BYTES]]);
    };
    let frame_bytes = frame_bytes(ENGINE_HEADER_BYTES, PAYLOAD_BYTES);
    device.append_wait(AppendClass::Data, frame_bytes, compose).await.expect("appends")
}

fn reads(env: &Env, device: &Device, places: &[Appended]) {
    let mut buf = vec![0; frame_bytes(ENGINE_HEADER_BYTES, PAYLOAD_BYTES)];
    // The direct writes have left nothing in the page cache: the walks below fill it, these show what is there.
    for round in ["cold", "again"] {
        let started = env.now();
        let mut cached = 0;
        for appended in places.iter().take(100_000) {
            cached += usize::from(matches!(device.try_read(appended.place, &mut buf), Ok(Tried::Frame(_))));
        }
        let nanos = (env.now() - started).as_nanos() as f64 / places.len().min(100_000) as f64;
        println!("try_read {round}: {nanos:.0} ns, {cached} of {} from the page cache", places.len().min(100_000));
    }
}

/// Frames of 1 MiB: appended by 8 at once, then read.
async fn large(env: &Env, device: &Arc<Device>, duration: Duration) {
    const LEN: usize = 1 << 20;
    let started = env.now();
    let tasks: Vec<_> = (0..8u8)
        .map(|waiter| {
            let (env, device) = (env.clone(), device.clone());
            tokio::spawn(async move {
                let payload = vec![waiter; LEN];
                let mut landed = Vec::new();
                while env.now() - started < duration {
                    let compose = |slot: &mut [u8]| frame::compose(slot, 1, CellId(1), &[], &[&payload]);
                    let appended = device.append_wait(AppendClass::Data, frame_bytes(0, LEN), compose).await;
                    landed.push(appended.expect("appends"));
                }
                landed
            })
        })
        .collect();
    let mut landed = Vec::new();
    for task in tasks {
        landed.extend(task.await.expect("a waiter ends well"));
    }
    let seconds = (env.now() - started).as_secs_f64();
    println!("1 MiB appends, 8 at once: {:.0} MB/s", (landed.len() * LEN) as f64 / seconds / 1e6);
    landed.truncate(500);
    for round in ["first", "again"] {
        let started = env.now();
        for appended in &landed {
            let frame = device.read(appended.place, appended.frame_bytes).await.expect("reads");
            std::hint::black_box(frame.into_payload());
        }
        let seconds = (env.now() - started).as_secs_f64();
        println!("1 MiB reads, {round}: {:.0} MB/s", (landed.len() * LEN) as f64 / seconds / 1e6);
    }
}

async fn walks(env: &Env, device: &Device, verify_payload: bool) {
    for round in ["first", "again"] {
        let started = env.now();
        let mut walk = device.walk(&LogVector::START, verify_payload);
        let mut damaged = 0;
        while let Some(event) = walk.next().await {
            damaged += usize::from(!matches!(event, WalkEvent::Frame(_)));
        }
        let seconds = (env.now() - started).as_secs_f64();
        println!(
            "walk {round} (payload checked: {verify_payload}): {} frames, {} MB at {:.0} MB/s, {damaged} damaged",
            walk.frames(),
            walk.read_bytes() / 1_000_000,
            walk.read_bytes() as f64 / seconds / 1e6
        );
    }
}
