//! What a node's part of the images counts, as metrics.

use super::local::LocalStores;
use super::opened::Opened;
use crate::door::OpenImage;
use crate::store::BlobStats;
use std::sync::Arc;
use subsystem::{Figure, LatencySeries};

type Pick = fn(&BlobStats) -> u64;

/// Name between `trilith_image_` and `_total`, help, and which count. Each has a series for every device.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("requests", "Requests of holders to the blobs of a device", |stats| stats.requests),
    ("refused_requests", "Of these, those that were refused", |stats| stats.refused),
    ("reads", "Reads of blobs", |stats| stats.reads),
    ("read_bytes", "Bytes of those reads", |stats| stats.read_bytes),
    ("writes", "Writes of content to blobs", |stats| stats.writes),
    ("written_bytes", "Bytes of those writes", |stats| stats.written_bytes),
    ("header_writes", "Headers of blobs written", |stats| stats.header_writes),
];

/// All of them.
pub(super) fn of(stores: &LocalStores, opened: &Arc<Opened>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for store in stores.iter() {
        for (name, help, pick) in COUNTERS {
            let counted = store.clone();
            let figure = Figure::counter(format!("trilith_image_{name}_total"), help, move || pick(&counted.stats()));
            figures.push(figure.with("device", store.device().to_string()));
        }
    }
    let copying = opened.clone();
    let copied = move || copying.open_images().iter().map(|open| open.image().copied_bytes()).sum::<u64>() as f64;
    let help = "Bytes that the images that are open here copied, to make copies equal or to make more of them";
    figures.push(Figure::gauge("trilith_image_copied_bytes", help, copied));
    let timing = opened.clone();
    let times = move || timing.open_images().iter().flat_map(|open| latencies_of(open)).collect();
    let help = "How long requests to an image that is open here took, failed ones too";
    figures.push(Figure::latencies("trilith_image_request_seconds", help, times));
    let opened = opened.clone();
    figures.push(Figure::gauge("trilith_image_open_images", "Images that this node has open", move || opened.count() as f64));
    figures
}

fn latencies_of(open: &OpenImage) -> Vec<LatencySeries> {
    let latencies = open.image().latencies();
    let kinds = [("read", &latencies.reads), ("write", &latencies.writes), ("clear", &latencies.clears)];
    let series = |(kind, latencies): (&str, &Arc<_>)| LatencySeries {
        labels: vec![("image", open.name().to_owned()), ("kind", kind.to_owned())],
        latencies: Arc::clone(latencies),
    };
    kinds.map(series).into()
}
