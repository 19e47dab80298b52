//! What an experiment leaves: a table as Markdown and as CSV, and plots.

mod plot;

pub use plot::{Plot, Series};

use anyhow::Context;
use std::fmt::Write;
use std::path::Path;

/// Where and when figures were made.
pub struct Machine {
    text: String,
    quick: bool,
}

impl Machine {
    /// `remark` says what else there is to know of it, after its kernel.
    pub fn look(remark: &str, quick: bool) -> anyhow::Result<Machine> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("reading {path}"));
        let cores = std::thread::available_parallelism().context("counting processors")?;
        let kernel = read("/proc/sys/kernel/osrelease")?;
        let load = read("/proc/loadavg")?;
        let memory = read("/proc/meminfo")?;
        let memory_kib = memory.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        let model = read("/proc/cpuinfo")?;
        let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
        let text = format!(
            "{cores} cores ({}), {} GiB, kernel {}; {remark}; load average at the start {}.",
            model.trim_start_matches([' ', '\t', ':']).trim(),
            memory_kib >> 20,
            kernel.trim(),
            load.split_ascii_whitespace().next().unwrap_or("unknown"),
        );
        Ok(Machine { text, quick })
    }
}

/// A table of text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<S: AsRef<str>>(columns: &[S]) -> Table {
        Table { columns: columns.iter().map(|name| name.as_ref().to_owned()).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Numbers and plain words only: nothing needs quotes.
    pub fn csv(&self) -> String {
        let lines = std::iter::once(self.columns.join(",")).chain(self.rows.iter().map(|row| row.join(",")));
        lines.fold(String::new(), |text, line| text + &line + "\n")
    }

    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.columns.len()));
        self.rows.iter().fold(line(&self.columns) + &rule, |text, row| text + &line(row))
    }
}

/// What an experiment found.
#[derive(Default)]
pub struct Report {
    pub title: String,
    /// How it was measured, a line each.
    pub notes: Vec<String>,
    /// For people.
    pub summary: Table,
    /// Every measurement.
    pub data: Table,
    /// By the end of their names.
    pub plots: Vec<(&'static str, Plot)>,
}

impl Report {
    /// The summary.
    pub fn text(&self) -> String {
        self.summary.markdown()
    }

    /// Writes `NAME.md`, `NAME.csv` and the plots.
    pub fn write(&self, folder: &Path, name: &str, machine: &Machine) -> anyhow::Result<()> {
        let mut text = format!("# {}\n\n", self.title);
        if machine.quick {
            text += "**Provisional**: short rounds (`--quick`), which show that it runs and no more.\n\n";
        }
        writeln!(text, "Machine: {}\n", machine.text)?;
        for note in &self.notes {
            writeln!(text, "- {note}")?;
        }
        writeln!(text, "\n{}", self.summary.markdown())?;
        for (end, plot) in &self.plots {
            writeln!(text, "![{}]({name}-{end}.svg)\n", plot.title)?;
            save(&folder.join(format!("{name}-{end}.svg")), &plot.svg())?;
        }
        writeln!(text, "All measurements: [{name}.csv]({name}.csv).")?;
        save(&folder.join(format!("{name}.md")), &text)?;
        save(&folder.join(format!("{name}.csv")), &self.data.csv())
    }
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

/// The middle of some numbers; of an even count the mean of the two in the middle. Not of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// `1.23 (1.10 to 1.40)`: the median and the extremes.
pub fn spread(values: &[f64], digits: usize) -> String {
    let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", median(values))
}

#[cfg(test)]
mod tests;
