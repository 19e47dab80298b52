//! What the S3 interface counts, as metrics.

use admin::Registry;
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

/// Registers them. Once per process.
pub fn register(registry: &Registry, app: &Arc<App>) {
    for (index, operation) in OPERATIONS.into_iter().enumerate() {
        for (name, help, pick) in COUNTERS {
            let app = app.clone();
            let name = format!("trilith_gateway_{name}_total");
            registry.counter(&name, help, &[("operation", operation)], move || pick(&app.stats().operations[index]));
        }
    }
    let (open, accepted) = (app.clone(), app.clone());
    registry
        .gauge("trilith_gateway_open_connections", "S3 connections open", &[], move || open.stats().open_connections as f64);
    let help = "S3 connections accepted";
    registry.counter("trilith_gateway_accepted_connections_total", help, &[], move || accepted.stats().accepted_connections);
}
