//! What the S3 interface counts, as metrics.

use admin::{Registry, UploadsSource, UploadsStatus};
use object::{UploadMemory, UploadMemoryStats};
use s3::{App, OPERATIONS, OperationStats};
use std::sync::Arc;

type Pick = fn(&OperationStats) -> u64;

/// Name between `trilith_gateway_` and `_total`, help, and which count. Each has a series for every kind of request.
const COUNTERS: &[(&str, &str, Pick)] = &[
    ("requests", "S3 requests answered", |stats| stats.requests),
    ("client_errors", "S3 requests answered with 4xx", |stats| stats.client_errors),
    ("server_errors", "S3 requests answered with 5xx", |stats| stats.server_errors),
    ("request_bytes", "Announced bytes of request bodies", |stats| stats.received_bytes),
    ("answer_bytes", "Bytes of answers' bodies", |stats| stats.sent_bytes),
    ("answer_time_us", "Microseconds from the end of the headers to the answer, of all requests together", |stats| {
        stats.answer_time_us
    }),
];

type PickUploads = fn(&UploadMemoryStats) -> u64;

/// Name after `trilith_gateway_upload_memory_`, help, and which figure.
const UPLOAD_GAUGES: &[(&str, &str, PickUploads)] = &[
    ("limit_bytes", "Memory that all uploads in hand may have together", |stats| stats.limit_bytes),
    ("used_bytes", "Memory that uploads have: not yet staged, or on its way to the devices", |stats| stats.used_bytes),
    ("peak_bytes", "Most of it that was used at once since the start", |stats| stats.peak_bytes),
    ("waiting_uploads", "Uploads whose clients are not read because there is no memory for them", |stats| stats.waiting),
];

const UPLOAD_COUNTERS: &[(&str, &str, PickUploads)] = &[
    ("early_chunks", "Chunks staged before they were full, because memory was short", |stats| stats.early_chunks),
    ("refused_uploads", "Uploads refused with SlowDown, because there was no memory for too long", |stats| stats.refused),
];

/// What a status says of uploads.
pub fn uploads(memory: &UploadMemory) -> UploadsSource {
    let memory = memory.clone();
    Arc::new(move || {
        let UploadMemoryStats { limit_bytes, used_bytes, waiting, refused, .. } = memory.stats();
        UploadsStatus { memory_limit_bytes: limit_bytes, memory_used_bytes: used_bytes, waiting, refused }
    })
}

/// Registers them. Once per process.
pub fn register(registry: &Registry, app: &Arc<App>) {
    for (index, operation) in OPERATIONS.into_iter().enumerate() {
        for (name, help, pick) in COUNTERS {
            let app = app.clone();
            let name = format!("trilith_gateway_{name}_total");
            registry.counter(&name, help, &[("operation", operation)], move || pick(&app.stats().operations[index]));
        }
    }
    for (name, help, pick) in UPLOAD_GAUGES {
        let app = app.clone();
        let name = format!("trilith_gateway_upload_memory_{name}");
        registry.gauge(&name, help, &[], move || pick(&app.upload_memory().stats()) as f64);
    }
    for (name, help, pick) in UPLOAD_COUNTERS {
        let app = app.clone();
        let name = format!("trilith_gateway_upload_memory_{name}_total");
        registry.counter(&name, help, &[], move || pick(&app.upload_memory().stats()));
    }
    let (open, accepted) = (app.clone(), app.clone());
    registry
        .gauge("trilith_gateway_open_connections", "S3 connections open", &[], move || open.stats().open_connections as f64);
    let help = "S3 connections accepted";
    registry.counter("trilith_gateway_accepted_connections_total", help, &[], move || accepted.stats().accepted_connections);
}
