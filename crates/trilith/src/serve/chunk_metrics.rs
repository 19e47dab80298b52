//! What a node's part of the chunk store counts, as metrics.

use admin::Registry;
use chunkstore::blocks::BlockStats;
use node::Node;

type Pick = fn(&BlockStats) -> u64;

/// Name between `trilith_chunk_` and `_total`, help, and which count. Each has a series for every device with space for chunks.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("requests", "Requests about copies of chunks", |stats| stats.requests),
    ("refused_requests", "Requests about copies that were refused", |stats| stats.refused),
    ("reads", "Contents of copies returned", |stats| stats.reads),
    ("read_bytes", "Bytes of those contents", |stats| stats.read_bytes),
    ("writes", "Contents of copies made durable", |stats| stats.writes),
    ("written_bytes", "Bytes of those contents", |stats| stats.written_bytes),
    ("header_writes", "Headers of blocks written", |stats| stats.header_writes),
    ("brought_copies", "Copies that relocations and repairs brought to the device", |stats| stats.brought),
    ("brought_bytes", "Bytes of those copies", |stats| stats.brought_bytes),
    ("damaged_reads", "Requests that met a damaged copy", |stats| stats.damaged),
];

/// Registers them. Once per process.
pub fn register(registry: &Registry, node: &Node) {
    let chunks = node.chunks();
    for (device, store) in chunks.stores() {
        let device = device.to_string();
        for (name, help, pick) in COUNTERS {
            let store = store.clone();
            registry
                .counter(&format!("trilith_chunk_{name}_total"), help, &[("device", &device)], move || pick(&store.stats()));
        }
    }
    let loads = chunks.loads().clone();
    let help = "Relocations that this node has begun, as the manager's leader, because nodes were asked far more than others";
    registry.counter("trilith_chunk_balance_moves_total", help, &[], move || loads.moves());
    let (led, of) = (chunks.units().clone(), chunks.units().clone());
    registry.gauge("trilith_chunk_led_units", "Maintenance units that this node leads", &[], move || led.counts().0 as f64);
    let (rows, led) = (chunks.units().clone(), chunks.units().clone());
    let help = "Chunks of the shards whose maintenance units this node leads";
    registry.gauge("trilith_chunk_led_chunks", help, &[], move || led.rows().1 as f64);
    let help = "Rows that these units have in memory; the others stand in pages";
    registry.gauge("trilith_chunk_led_rows", help, &[], move || rows.rows().0 as f64);
    let short = chunks.units().clone();
    let help = "Chunks of these units with fewer copies than are wanted, pages of the units among them";
    registry.gauge("trilith_chunk_led_short_chunks", help, &[], move || short.short_chunks() as f64);
    let help = "Maintenance units that this node is a member of";
    registry.gauge("trilith_chunk_member_units", help, &[], move || of.counts().1 as f64);
}
