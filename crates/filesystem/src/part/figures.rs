//! What a node's part of the file volumes counts, as metrics.

use std::sync::Arc;

use subsystem::Figure;

use super::contents::Contents;
use super::trees::Trees;
use crate::data::store::ExtentStats;

type Pick = fn(&ExtentStats) -> u64;

/// Name between `trilith_file_` and `_total`, help, and which count. Each has a series for every device.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("requests", "Requests to the contents of a device", |stats| stats.requests),
    ("refused_requests", "Of these, those that were refused", |stats| stats.refused),
    ("reads", "Pieces of content that were read", |stats| stats.reads),
    ("read_bytes", "Bytes of those pieces, in whole blocks", |stats| stats.read_bytes),
    ("writes", "Pieces of content that were written", |stats| stats.writes),
    ("written_bytes", "Bytes of those pieces, in whole blocks", |stats| stats.written_bytes),
    ("journal_records", "Records of the journals of contents", |stats| stats.journal_records),
    ("checkpoints", "Checkpoints of the tables of contents", |stats| stats.checkpoints),
    ("damaged_blocks", "Blocks that were found damaged", |stats| stats.damaged_blocks),
];

/// All of them.
pub fn of(contents: &Arc<Contents>, trees: &Arc<Trees>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for store in contents.stores().all() {
        let device = store.device().to_string();
        for (name, help, pick) in COUNTERS {
            let counted = store.clone();
            let figure = Figure::counter(format!("trilith_file_{name}_total"), help, move || pick(&counted.stats()));
            figures.push(figure.with("device", device.clone()));
        }
        let counted = store.clone();
        let help = "Bytes of files' contents on a device";
        let bytes = move || counted.usage().content_bytes as f64;
        figures.push(Figure::gauge("trilith_file_content_bytes", help, bytes).with("device", device));
    }
    let (led, closed, out) = (contents.clone(), contents.clone(), contents.clone());
    let help = "Data partitions of volumes that this node serves as their primary";
    figures.push(Figure::gauge("trilith_file_led_contents", help, move || led.led().len() as f64));
    let help = "Those of them that take no new extents: space is low, or they have many";
    figures.push(Figure::gauge("trilith_file_closed_contents", help, move || closed.closed() as f64));
    let help = "Copies of those data partitions that are not in sync";
    figures.push(Figure::gauge("trilith_file_copies_out", help, move || out.copies_out() as f64));
    let (led, voters) = (trees.clone(), trees.clone());
    let help = "Trees of file volumes that this node leads";
    figures.push(Figure::gauge("trilith_file_led_trees", help, move || led.led() as f64));
    let help = "Nodes with a vote in those trees: three for each tree in a cluster of three nodes and more";
    figures.push(Figure::gauge("trilith_file_led_tree_voters", help, move || voters.voters_of_led() as f64));
    figures
}
