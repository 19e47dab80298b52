//! Metrics as closures: who owns a number says how to read it, and it is read at each scrape.
//!
//! Names are `trilith_<role>_<what>_<unit>`; counters end in `_total`, which is part of the name given here. Several series
//! of one name differ in their labels.

use parking_lot::RwLock;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use subsystem::{Figure, LatencySeries, Read};

/// Most series of a process. Labels are devices and kinds, never keys or buckets, so this is far away. Histograms of open images come on top.
pub const MAX_SERIES: usize = 65_536;

/// Every metric of a process. Clones share it.
#[derive(Clone, Default)]
pub struct Registry {
    families: Arc<RwLock<Families>>,
}

/// Families by name, so that the text is the same at each scrape.
#[derive(Default)]
struct Families {
    by_name: BTreeMap<String, Family>,
    series: usize,
}

/// All series of one name.
struct Family {
    help: String,
    kind: Kind,
    series: Vec<Series>,
}

struct Series {
    labels: Vec<(String, String)>,
    read: Read,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Registry {
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Adds a count that only rises. `read` must not block.
    ///
    /// Panics when the name is not of the form that this crate demands, or is registered as something else.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)], read: impl Fn() -> u64 + Send + Sync + 'static) {
        let family = name.strip_suffix("_total").filter(|family| is_name(family));
        let family = family.unwrap_or_else(|| panic!("a counter is called trilith_<role>_<what>_<unit>_total, not {name}"));
        self.add(family, help, labels, Kind::Counter, Read::Counter(Box::new(read)));
    }

    /// Adds a number that rises and falls. `read` must not block.
    ///
    /// Panics as [`Registry::counter`] does.
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)], read: impl Fn() -> f64 + Send + Sync + 'static) {
        assert!(is_name(name) && !name.ends_with("_total"), "a gauge is called trilith_<role>_<what>_<unit>, not {name}");
        self.add(name, help, labels, Kind::Gauge, Read::Gauge(Box::new(read)));
    }

    /// Adds histograms of durations, whose series come and go. `read` must not block.
    ///
    /// Panics as [`Registry::counter`] does.
    pub fn latencies(&self, name: &str, help: &str, read: impl Fn() -> Vec<LatencySeries> + Send + Sync + 'static) {
        assert!(is_name(name) && name.ends_with("_seconds"), "durations are called trilith_<role>_<what>_seconds, not {name}");
        self.add(name, help, &[], Kind::Histogram, Read::Latencies(Box::new(read)));
    }

    /// Adds a subsystem's metric.
    ///
    /// Panics as [`Registry::counter`] does.
    pub fn take(&self, figure: Figure) {
        let Figure { name, help, labels, read } = figure;
        let labels: Vec<(&str, &str)> = labels.iter().map(|(label, value)| (*label, value.as_str())).collect();
        match read {
            Read::Counter(read) => self.counter(&name, help, &labels, read),
            Read::Gauge(read) => self.gauge(&name, help, &labels, read),
            Read::Latencies(read) => self.latencies(&name, help, read),
        }
    }

    fn add(&self, name: &str, help: &str, labels: &[(&str, &str)], kind: Kind, read: Read) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut families = self.families.write();
        assert!(families.series < MAX_SERIES, "more than {MAX_SERIES} metrics");
        families.series += 1;
        let new = || Family { help: help.to_owned(), kind, series: Vec::new() };
        let family = families.by_name.entry(name.to_owned()).or_insert_with(new);
        assert!(family.kind == kind, "{name} is a {:?} already", family.kind);
        assert!(family.series.iter().all(|series| series.labels != labels), "{name} is registered twice with these labels");
        family.series.push(Series { labels, read });
    }

    /// All metrics, read now, in the OpenMetrics text format.
    pub fn render(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("writing to memory does not fail");
        out
    }
}

impl prometheus_client::collector::Collector for Registry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.families.read().by_name {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(name, &family.help, None, kind)?;
            for series in &family.series {
                // A series without labels is written without the braces that a family would give it.
                if series.labels.is_empty() {
                    encode(&series.read, &mut metric)?;
                } else {
                    encode(&series.read, &mut metric.encode_family(&series.labels)?)?;
                }
            }
        }
        Ok(())
    }
}

fn encode(read: &Read, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    match read {
        Read::Counter(read) => metric.encode_counter::<NoLabelSet, u64, u64>(&read(), None),
        Read::Gauge(read) => metric.encode_gauge(&read()),
        Read::Latencies(read) => read().iter().try_for_each(|series| encode_latencies(series, metric)),
    }
}

fn encode_latencies(series: &LatencySeries, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    let counts = series.latencies.counts();
    let count = counts.iter().map(|(_, count)| count).sum();
    let mut labelled = metric.encode_family(&series.labels)?;
    labelled.encode_histogram::<NoLabelSet>(series.latencies.sum_seconds(), count, &counts, None)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registry of {} series", self.families.read().series)
    }
}

/// Whether a name is `trilith_`, a role, and at least one more word, in lower case.
fn is_name(name: &str) -> bool {
    let mut words = name.split('_');
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    words.next() == Some("trilith") && words.clone().count() >= 2 && words.all(is_word)
}

#[cfg(test)]
mod tests;
