//! What a node's part of the chunk store counts, as metrics.

use super::Chunks;
use crate::blocks::BlockStats;
use crate::units::Units;
use subsystem::Figure;

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

/// All of them.
pub(super) fn of(chunks: &Chunks) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (device, store) in chunks.stores() {
        for (name, help, pick) in COUNTERS {
            let store = store.clone();
            let figure = Figure::counter(format!("trilith_chunk_{name}_total"), help, move || pick(&store.stats()));
            figures.push(figure.with("device", device.to_string()));
        }
    }
    let loads = chunks.loads().clone();
    let help = "Relocations that this node has begun, as the manager's leader, because nodes were asked far more than others";
    figures.push(Figure::counter("trilith_chunk_balance_moves_total", help, move || loads.moves()));
    let gauge = |name: &str, help, pick: fn(&Units) -> u64| {
        let units = chunks.units().clone();
        Figure::gauge(format!("trilith_chunk_{name}"), help, move || pick(&units) as f64)
    };
    figures.extend([
        gauge("led_units", "Maintenance units that this node leads", |units| units.counts().0 as u64),
        gauge("led_chunks", "Chunks of the shards whose maintenance units this node leads", |units| units.rows().1),
        gauge("led_rows", "Rows that these units have in memory; the others stand in pages", |units| units.rows().0),
        gauge(
            "led_short_chunks",
            "Chunks of these units with fewer copies than are wanted, pages of the units among them",
            |units| units.short_chunks(),
        ),
        gauge("member_units", "Maintenance units that this node is a member of", |units| units.counts().1 as u64),
    ]);
    figures
}
