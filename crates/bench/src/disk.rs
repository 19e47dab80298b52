//! `bench disk`: what a device gives, through the same code that the system uses.
//!
//! The limits to compare the system with: random 4 KiB writes with and without durability at depths 1, 16 and 64, random
//! reads past the page cache, appends, and large transfers. A depth of n keeps n requests in flight; the completion of one
//! submits the next, so no task or channel stands between them.
//!
//! A new file is written once from end to end before it is measured: a write to blocks that were never written also commits
//! the file system's metadata, which costs several times as much as the write. The append to the growing file, measured
//! before that, shows how much.

mod case;
mod load;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use disk::{Disk, FileDisk, OpenOptions};

pub use self::case::{Access, Case, Pattern, standard_cases};
pub use self::report::{CaseReport, Report};
use crate::s3::mix::parse_size;
use crate::s3::parse_duration;
use crate::{output, tell};

/// The smallest file that is measured: room for 64 requests of 1 MiB in flight.
pub const SMALLEST_SIZE_BYTES: u64 = 64 << 20;

/// Measure a file or block device. What it holds is overwritten.
#[derive(Debug, Clone, clap::Args)]
pub struct DiskArgs {
    /// File or block device. A file that does not exist is made, and removed afterwards.
    #[arg(long)]
    pub file: PathBuf,

    /// Allow a file or device that exists already to be overwritten.
    #[arg(long)]
    pub overwrite: bool,

    /// Bytes that are used, such as 1G; at least 64M.
    #[arg(long, default_value = "1G", value_parser = |text: &str| parse_size(text).map_err(|error| error.to_string()))]
    pub size: u64,

    /// Time per case.
    #[arg(long, short = 'd', default_value = "3s", value_parser = parse_duration)]
    pub duration: Duration,

    /// Run only the cases whose name contains this; several are allowed.
    #[arg(long)]
    pub only: Vec<String>,

    /// Go through the page cache instead of O_DIRECT.
    #[arg(long)]
    pub cached: bool,

    /// Use threads instead of io_uring.
    #[arg(long)]
    pub threads: bool,

    /// Seed of the random places.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints.
pub fn run(args: &DiskArgs) -> anyhow::Result<()> {
    let report = execute(args)?;
    if args.json {
        tell!("{}", serde_json::to_string_pretty(&report).context("writing the report as JSON")?)?;
    } else {
        output::print(format_args!("{report}"))?;
    }
    Ok(())
}

/// Measures and returns the report.
pub fn execute(args: &DiskArgs) -> anyhow::Result<Report> {
    ensure!(args.size >= SMALLEST_SIZE_BYTES, "--size is below {SMALLEST_SIZE_BYTES} bytes");
    let cases: Vec<Case> = standard_cases().into_iter().filter(|case| is_chosen(case, &args.only)).collect();
    if cases.is_empty() {
        let names: Vec<String> = standard_cases().iter().map(Case::name).collect();
        bail!("no case matches --only; the cases are {}", names.join(", "));
    }
    let existed = args.file.exists();
    ensure!(!existed || args.overwrite, "{} exists; --overwrite lets its content be destroyed", args.file.display());
    let outcome = measure(args, &cases, existed);
    if !existed {
        remove(&args.file)?;
    }
    outcome
}

fn is_chosen(case: &Case, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|part| case.name().contains(part.as_str()))
}

/// Removes what this run made, if it got as far as making it.
fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn measure(args: &DiskArgs, cases: &[Case], existed: bool) -> anyhow::Result<Report> {
    let options = OpenOptions { create: !existed, capacity_bytes: Some(args.size), direct: !args.cached };
    let disk = FileDisk::open(&args.file, &options).context("opening the disk")?;
    if let Some(capacity) = disk.capacity_bytes() {
        ensure!(capacity >= args.size, "{} has only {capacity} bytes", args.file.display());
    }
    let direct = disk.is_direct();
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Where the system refuses rings the disk's own threads do the work; the report says which it was.
        let ring = if args.threads { None } else { disk::install_ring().ok() };
        let mut report = Report::new(&disk.describe(), args.size, direct, ring.is_some());
        for case in cases.iter().filter(|case| case.needs_new_file() && !existed) {
            report.add(case, load::run(&disk, case, args).await?);
        }
        if !existed || disk.size_bytes() < args.size {
            load::write_all(&disk, args.size).await?;
        }
        for case in cases.iter().filter(|case| !case.needs_new_file()) {
            report.add(case, load::run(&disk, case, args).await?);
        }
        Ok(report)
    })
}

#[cfg(test)]
mod tests;
