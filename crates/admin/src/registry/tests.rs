use super::{Registry, is_name};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use subsystem::{Latencies, LatencySeries};

#[test]
fn numbers_are_read_at_each_scrape() {
    let registry = Registry::new();
    let count = Arc::new(AtomicU64::new(3));
    let reader = count.clone();
    registry.counter("trilith_target_appends_total", "Frames", &[("device", "7")], move || reader.load(Ordering::Relaxed));
    registry.counter("trilith_target_appends_total", "Frames", &[("device", "8")], || 1);
    registry.gauge("trilith_gateway_uptime_seconds", "Time", &[], || 1.5);
    let text = registry.render();
    assert_eq!(text.matches("# TYPE trilith_target_appends counter").count(), 1, "{text}");
    assert!(text.contains("trilith_target_appends_total{device=\"7\"} 3\n"), "{text}");
    assert!(text.contains("trilith_target_appends_total{device=\"8\"} 1\n"), "{text}");
    assert!(text.contains("trilith_gateway_uptime_seconds 1.5\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    count.store(4, Ordering::Relaxed);
    assert!(registry.render().contains("trilith_target_appends_total{device=\"7\"} 4\n"));
}

#[test]
fn histograms_come_and_go_with_what_they_are_of() {
    let registry = Registry::new();
    let latencies = Arc::new(Latencies::default());
    let shown = Arc::new(Mutex::new(vec![latencies.clone()]));
    let reader = shown.clone();
    let series =
        |latencies: &Arc<Latencies>| LatencySeries { labels: vec![("image", "vm1".to_owned())], latencies: latencies.clone() };
    registry.latencies("trilith_image_read_seconds", "Time", move || reader.lock().iter().map(series).collect());
    latencies.record(Duration::from_micros(70));
    latencies.record(Duration::from_secs(100));
    let text = registry.render();
    assert!(text.contains("# TYPE trilith_image_read_seconds histogram\n"), "{text}");
    assert!(text.contains("trilith_image_read_seconds_count{image=\"vm1\"} 2\n"), "{text}");
    assert!(text.contains("trilith_image_read_seconds_bucket{le=\"0.00005\",image=\"vm1\"} 0\n"), "{text}");
    assert!(text.contains("trilith_image_read_seconds_bucket{le=\"0.0001\",image=\"vm1\"} 1\n"), "{text}");
    assert!(text.contains("trilith_image_read_seconds_bucket{le=\"+Inf\",image=\"vm1\"} 2\n"), "{text}");
    shown.lock().clear();
    assert!(!registry.render().contains("vm1"));
}

#[test]
fn label_values_are_escaped() {
    let registry = Registry::new();
    registry.gauge("trilith_target_up_devices", "Path", &[("path", "a\"b\\c")], || 1.0);
    assert!(registry.render().contains(r#"{path="a\"b\\c"}"#), "{}", registry.render());
}

#[test]
fn names_have_a_role_and_a_meaning() {
    assert!(is_name("trilith_gateway_writes"));
    assert!(is_name("trilith_gateway_index_full_map_bytes"));
    for wrong in ["gateway_writes", "trilith_writes", "trilith__writes", "trilith_Gateway_writes", "trilith_gateway_"] {
        assert!(!is_name(wrong), "{wrong}");
    }
}

#[test]
#[should_panic(expected = "registered twice")]
fn one_series_has_one_owner() {
    let registry = Registry::new();
    registry.gauge("trilith_gateway_uptime_seconds", "Time", &[], || 1.0);
    registry.gauge("trilith_gateway_uptime_seconds", "Time", &[], || 2.0);
}
