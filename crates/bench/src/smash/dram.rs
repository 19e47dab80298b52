//! Memory of the units (paper, figure 6 and section 4.7): formulas, and real units beside them.

use super::formula::{Lengths, megabytes};
use super::index::{self, KEY_BYTES, Weighed};
use super::{SmashArgs, Write};
use crate::report::{Plot, Report, Series, Table};

const KEYS: u64 = 1_000_000;
const QUICK_KEYS: u64 = 100_000;
/// A node's storage.
const NODE_BYTES: f64 = 4e12;
/// KiB.
const OBJECT_SIZES: [u64; 7] = [16, 32, 64, 128, 256, 512, 1024];
/// What the paper's text has of figure 6a, in GB: with and without ids in the index.
const PAPER_BY_SIZE: [(u64, &str, &str); 2] = [(16, "< 5", "> 20"), (64, "1.1", "4.8")];
const SHARD_MILLIONS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// Of the paper's section 4.7.
const EXAMPLE_NODES: f64 = 10_000.0;
const EXAMPLE_SHARD: f64 = 40e6;

pub fn run(args: &SmashArgs, write: Write<'_>) -> anyhow::Result<()> {
    let lengths = Lengths::EVALUATION;
    let (value_bits, block_bits) = (lengths.value_bits() as u32, lengths.blocks.log2().ceil() as u32);
    let weighed = index::weigh(if args.quick { QUICK_KEYS } else { KEYS }, value_bits, block_bits, args.seed)?;
    write(("dram-node", by_object_size(&weighed)))?;
    write(("dram-shard", by_shard(&weighed)))?;
    write(("dram-units", units(&weighed)))?;
    write(("dram-example", example()))
}

fn lengths_note() -> String {
    format!(
        "Ids of {KEY_BYTES} bytes, 3 copies, nodes and blocks of 20 bits each (10^6 nodes; 4 TB in blocks of 4 MB): values of 120 bits. \
         MB and GB are 10^6 and 10^9 bytes."
    )
}

fn built_note(weighed: &Weighed) -> String {
    format!(
        "Built: a full unit of {} keys with this repository's `ludo`, its bytes a key multiplied: {:.1} bits a key for a lookup unit, \
         {:.1} with ids (SmashSimple), {:.1} for ids with a block (a local index), {:.1} for an active unit.",
        weighed.keys, weighed.lookup, weighed.simple, weighed.local, weighed.maintenance
    )
}

/// Figure 6a.
fn by_object_size(weighed: &Weighed) -> Report {
    let lengths = Lengths::EVALUATION;
    let columns = [
        "object KiB",
        "copies on a node, M",
        "Smash GB",
        "SmashSimple GB",
        "local index GB",
        "Smash / SmashSimple",
        "Smash / local index",
        "Smash built GB",
        "built / built local",
        "paper: Smash, SmashSimple GB",
    ];
    let mut summary = Table::new(&columns);
    let mut data =
        Table::new(&["object_kib", "copies", "smash_mb", "simple_mb", "local_mb", "smash_built_mb", "local_built_mb"]);
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for size in OBJECT_SIZES {
        let copies = NODE_BYTES / (size << 10) as f64;
        let bits = [lengths.lookup_unit(copies), lengths.simple_unit(copies), lengths.local_index(copies)];
        let [smash, simple, local] = bits.map(megabytes);
        let [built, built_local] = [weighed.lookup, weighed.local].map(|bits| megabytes(bits * copies));
        let paper = PAPER_BY_SIZE.iter().find(|paper| paper.0 == size);
        summary.row(vec![
            size.to_string(),
            format!("{:.1}", copies / 1e6),
            gigabytes(smash),
            gigabytes(simple),
            gigabytes(local),
            percent(smash / simple),
            percent(smash / local),
            gigabytes(built),
            percent(built / built_local),
            paper.map_or(String::new(), |(_, smash, simple)| format!("{smash}; {simple}")),
        ]);
        let row = [copies, smash, simple, local, built, built_local].map(|value| format!("{value:.1}"));
        data.row(std::iter::once(size.to_string()).chain(row).collect());
        for (line, value) in lines.iter_mut().zip([smash, simple, local]) {
            line.push(((size as f64).log2(), value / 1000.0));
        }
    }
    let notes = vec![
        lengths_note(),
        "A node of 4 TB holds so many copies of objects; the system has a third as many objects a node, each in a lookup unit that three nodes host: \
         so a node's lookup units have as many entries as it has copies."
            .to_owned(),
        "Local index: what CRUSH and MapX need on each node to find the block of an id. Counted as densely as can be, a cuckoo table at 95% \
         load; an LSM tree with its caches and filters takes more, so the ratio to it is an upper bound."
            .to_owned(),
        built_note(weighed),
    ];
    let plot = plot("Memory of a node by object size (figure 6a)", "log2 of the object size in KiB", lines, "local index");
    Report {
        title: "Memory of a node by object size (figure 6a)".to_owned(),
        notes,
        summary,
        data,
        plots: vec![("size", plot)],
    }
}

/// Figures 6b and 6c.
fn by_shard(weighed: &Weighed) -> Report {
    let lengths = Lengths::EVALUATION;
    let columns = [
        "objects a shard, M",
        "lookup unit MB",
        "SmashSimple MB",
        "local index MB",
        "hash map MB",
        "lookup / SmashSimple",
        "lookup / local",
        "lookup built / hash map",
        "active unit MB",
        "active unit without shard ids MB",
        "lookup built MB",
        "active unit built MB",
    ];
    let mut summary = Table::new(&columns);
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    let mut active = [Vec::new(), Vec::new(), Vec::new()];
    for millions in SHARD_MILLIONS {
        let objects = millions as f64 * 1e6;
        let bits = [
            lengths.lookup_unit(objects),
            lengths.simple_unit(objects),
            lengths.local_index(objects),
            lengths.maintenance_unit(objects),
            lengths.maintenance_unit_without_shard(objects),
            weighed.lookup * objects,
            weighed.maintenance * objects,
        ];
        let [lookup, simple, local, unit, shorter, built, unit_built] = bits.map(megabytes);
        let map = index::map_bytes(millions * 1_000_000) as f64 / 1e6;
        let mut row = vec![millions.to_string(), whole(lookup), whole(simple), whole(local), whole(map)];
        row.extend([percent(lookup / simple), percent(lookup / local), percent(built / map)]);
        row.extend([unit, shorter, built, unit_built].map(whole));
        summary.row(row);
        for (line, value) in lines.iter_mut().zip([lookup, simple, local]) {
            line.push((millions as f64, value / 1000.0));
        }
        for (line, value) in active.iter_mut().zip([unit, shorter, unit_built]) {
            line.push((millions as f64, value / 1000.0));
        }
    }
    let notes = vec![
        lengths_note(),
        "The paper has over 70% less than the others at each shard size (figure 6b), and no more than 1.8 GB for an active unit of 32 M \
         (figure 6c). The formula with whole ids gives more than that; all ids of a unit begin with its shard's 20 bits, and without these it is met."
            .to_owned(),
        "Local index: a cuckoo table at 95% load, the densest there can be. Hash map: the same ids and blocks in `hashbrown`, bytes it allocates for \
         so many, as an index in memory is commonly kept. At these sizes it is 48% full; right before it doubles it has 55% of these bytes a key."
            .to_owned(),
        built_note(weighed),
        "The built active unit is larger than the formula because it holds a forest over the classifier's keys, without which \
         an insertion would not take constant time; the formula has no such part."
            .to_owned(),
    ];
    let by_shard = plot("Memory of a shard (figure 6b)", "millions of objects", lines, "local index");
    let [unit, shorter, built] = active;
    let series = [("formula", unit), ("formula without shard ids", shorter), ("built", built)];
    let by_unit = Plot {
        title: "Memory of the active unit (figure 6c)".to_owned(),
        x_label: "millions of objects".to_owned(),
        y_label: "GB".to_owned(),
        series: series.map(|(name, points)| Series { name: name.to_owned(), points }).to_vec(),
    };
    let (data, title) = (summary.clone(), "Memory of a shard and of the active unit (figures 6b and 6c)".to_owned());
    Report { title, notes, summary, data, plots: vec![("lookup", by_shard), ("active", by_unit)] }
}

/// Formula beside what was built.
fn units(weighed: &Weighed) -> Report {
    let lengths = Lengths::EVALUATION;
    let keys = weighed.keys as f64;
    let mut summary = Table::new(&["unit", "formula, bits a key", "built, bits a key", "built / formula", "built MB"]);
    let rows = [
        ("lookup unit", lengths.lookup_unit(keys), weighed.lookup),
        ("active maintenance unit with its lookup unit", lengths.maintenance_unit(keys), weighed.maintenance),
        ("SmashSimple", lengths.simple_unit(keys), weighed.simple),
        ("local index", lengths.local_index(keys), weighed.local),
    ];
    for (name, formula, built) in rows {
        let formula = formula / keys;
        let ratio = format!("{:.3}", built / formula);
        summary.row(vec![
            name.to_owned(),
            format!("{formula:.2}"),
            format!("{built:.2}"),
            ratio,
            format!("{:.1}", megabytes(built * keys)),
        ]);
    }
    let short =
        format!("3.76 + 1.05 l is {:.2} for values of {} bits.", 3.76 + 1.05 * lengths.value_bits(), lengths.value_bits());
    let notes = vec![format!("{} keys of {KEY_BYTES} bytes, full at 95% load.", weighed.keys), short];
    Report {
        title: "Units as built, beside their formulas".to_owned(),
        notes,
        data: summary.clone(),
        summary,
        plots: Vec::new(),
    }
}

/// The figures that the paper prints for one system (section 4.7).
fn example() -> Report {
    let lengths = Lengths::EXAMPLE;
    let larger = Lengths { blocks: 4e6, ..lengths };
    let mut summary = Table::new(&["what", "printed", "by the formulas, p = 1 M blocks", "p = 4 M blocks"]);
    let mut row = |what: &str, printed: &str, of: &dyn Fn(&Lengths) -> f64| {
        let cells = [&lengths, &larger].map(|lengths| size(megabytes(of(lengths))));
        summary.row([what.to_owned(), printed.to_owned()].into_iter().chain(cells).collect());
    };
    row("lookup unit", "680 MB", &|lengths| lengths.lookup_unit(EXAMPLE_SHARD));
    row("maintenance unit", "1.5 GB", &|lengths| lengths.maintenance_unit(EXAMPLE_SHARD));
    row("monitor, by blocks of a node", "391 MB", &|lengths| lengths.monitor(EXAMPLE_NODES));
    row("monitor, formula as printed (by objects of a shard)", "391 MB", &|lengths| {
        lengths.monitor_as_printed(EXAMPLE_NODES, EXAMPLE_SHARD)
    });
    row("directory of all objects", "9 TB", &|lengths| lengths.directory(EXAMPLE_NODES * EXAMPLE_SHARD));
    let notes = vec![
        "10,000 nodes, 10,000 shards of 40 M objects, ids of 160 bits, nodes and shards of 20 bits.".to_owned(),
        "With the p = 1 M that the text states, a lookup unit is 649 MB and not 680. All three printed figures are met with p = 4 M blocks a \
         node (16 TB, 22 bits), so they were probably computed with that; the monitor's formula is then over the blocks of a node, not over the \
         objects of a shard as printed."
            .to_owned(),
    ];
    Report { title: "The paper's example (section 4.7)".to_owned(), notes, data: summary.clone(), summary, plots: Vec::new() }
}

fn plot(title: &str, x_label: &str, [smash, simple, local]: [Vec<(f64, f64)>; 3], others: &str) -> Plot {
    let series = [("Smash", smash), ("SmashSimple", simple), (others, local)];
    Plot {
        title: title.to_owned(),
        x_label: x_label.to_owned(),
        y_label: "GB".to_owned(),
        series: series.map(|(name, points)| Series { name: name.to_owned(), points }).to_vec(),
    }
}

/// In MB, or in TB from one on.
fn size(megabytes: f64) -> String {
    if megabytes < 1e6 { format!("{megabytes:.0} MB") } else { format!("{:.1} TB", megabytes / 1e6) }
}

fn gigabytes(megabytes: f64) -> String {
    format!("{:.2}", megabytes / 1000.0)
}

fn whole(megabytes: f64) -> String {
    format!("{megabytes:.0}")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
