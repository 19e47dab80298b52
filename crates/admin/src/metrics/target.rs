//! The figures of one device: of the zone discipline, of the disk beneath it, and how full it is.

use crate::registry::Registry;
use crate::sources::free_bytes;
use device::{Counter, Device, DeviceStats, Usage, VolumeOwner};
use disk::DiskStats;
use std::sync::Arc;

type Pick = fn(&DeviceStats) -> &Counter;

/// Name between `trilith_target_` and `_total`, help, and which counter.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("appends", "Frames acknowledged", |stats| &stats.appends),
    ("appended_bytes", "Bytes of acknowledged frames", |stats| &stats.appended_bytes),
    ("append_errors", "Appends that ended in an error, refused ones included", |stats| &stats.append_errors),
    ("batches", "Write requests for frames; appends / batches is what group commit saves", |stats| &stats.batches),
    ("written_bytes", "Bytes of those writes, padding included", |stats| &stats.written_bytes),
    ("timed_flushes", "Flushes of sync=batch", |stats| &stats.flushes),
    ("zone_activations", "Zones activated", |stats| &stats.activations),
    ("zone_finishes", "Zones finished", |stats| &stats.finishes),
    ("zone_resets", "Zones reset", |stats| &stats.resets),
    ("zone_waits", "Batches that waited for their zone to be activated", |stats| &stats.zone_waits),
    ("prewritten_bytes", "Bytes of zeros written ahead of the head", |stats| &stats.prewritten_bytes),
    ("reads", "Frames read", |stats| &stats.reads),
    ("cached_reads", "Frames read from the page cache on the caller's thread", |stats| &stats.cached_reads),
    ("repeated_reads", "Reads whose first answer was wrong and whose second was right", |stats| &stats.repeated_reads),
    ("corrupt_reads", "Reads that found a damaged frame on the medium", |stats| &stats.corrupt_reads),
    ("scrubbed_bytes", "Bytes read by scrubs", |stats| &stats.scrubbed_bytes),
    ("scrub_damaged_frames", "Damaged frames that scrubs found", |stats| &stats.scrub_damage),
];

type PickDisk = fn(&DiskStats) -> u64;

/// The same, between `trilith_disk_` and `_total`.
const DISK_COUNTERS: &[(&str, &str, PickDisk)] = &[
    ("read_requests", "Read requests; hits of the page cache are not among them", |stats| stats.reads),
    ("read_bytes", "Bytes of read requests", |stats| stats.read_bytes),
    ("cache_hits", "Reads that the page cache served at once", |stats| stats.cache_hits),
    ("cache_misses", "Reads that the page cache could not serve at once", |stats| stats.cache_misses),
    ("write_requests", "Write requests", |stats| stats.writes),
    ("write_bytes", "Bytes of write requests, prewriting included", |stats| stats.write_bytes),
    ("durable_write_requests", "Write requests that were to be durable", |stats| stats.durable_writes),
    ("flush_requests", "Flush requests", |stats| stats.flushes),
    ("allocate_requests", "Requests to reserve space", |stats| stats.allocates),
    ("zeroing_requests", "Requests to make a range zeros", |stats| stats.zeroings),
    ("discard_requests", "Requests to give space back", |stats| stats.discards),
    ("failed_requests", "Requests answered with an error, refused ones included", |stats| stats.failures),
];

type Measure = fn(&Usage) -> u64;

const GAUGES: &[(&str, &str, Measure)] = &[
    ("capacity_bytes", "What all zones together can hold", |usage| usage.capacity_bytes),
    ("used_bytes", "Bytes in zones that are not free", |usage| usage.written_bytes),
    ("free_bytes", "Bytes that new objects may still take", free_bytes),
    ("zones", "Zones", |usage| u64::from(usage.zones)),
    ("free_zones", "Zones that any append may open", |usage| u64::from(usage.free_zones)),
    ("lent_zones", "Zones that volumes have", |usage| u64::from(usage.lent_zones)),
    ("lendable_zones", "Further zones that volumes could get", |usage| u64::from(usage.lendable_zones)),
    ("free_data_zones", "Zones that data may open; the others are the reserve", |usage| u64::from(usage.free_data_zones)),
];

pub fn register(registry: &Registry, device: &Arc<Device>) {
    let id = device.id().to_string();
    let labels = [("device", id.as_str())];
    for (name, help, pick) in COUNTERS {
        let device = device.clone();
        registry.counter(&format!("trilith_target_{name}_total"), help, &labels, move || pick(device.stats()).get());
    }
    for (name, help, pick) in DISK_COUNTERS {
        let device = device.clone();
        registry.counter(&format!("trilith_disk_{name}_total"), help, &labels, move || pick(&device.disk().stats()));
    }
    for (name, help, measure) in GAUGES {
        let device = device.clone();
        registry.gauge(&format!("trilith_target_{name}"), help, &labels, move || measure(&device.usage()) as f64);
    }
    for owner in VolumeOwner::ALL {
        let (device, help) = (device.clone(), "Bytes that a part of the system has of the device beside the objects");
        let labels = [("device", id.as_str()), ("owner", owner.name())];
        let bytes = move || device.owners().iter().filter(|usage| usage.owner == owner).map(|usage| usage.bytes as f64).sum();
        registry.gauge("trilith_target_owned_bytes", help, &labels, bytes);
    }
    let poisoned = device.clone();
    let help = "1 after a failed write, from which on the device is only read";
    registry
        .gauge("trilith_target_read_only_state", help, &labels, move || f64::from(u8::from(poisoned.poisoned_by().is_some())));
    let watched = device.clone();
    let help = "For how long the disk has owed an answer: the oldest write under way, or since when no read has ended; 0 while nothing is under way";
    registry.gauge("trilith_disk_owes_answer_seconds", help, &labels, move || watched.owes_answer_for().as_secs_f64());
}
