//! The options of `bench cheetah`.

use crate::systems::LabArgs;
use std::path::PathBuf;

const ROUNDS: u32 = 3;

/// The volume engine beside stores that order their writes: the Cheetah paper's figures 5 to 20.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "All stores are in this process, on files of 2 GB in a folder, through the code that devices use; the files are removed afterwards.\n\
                  Figure 15 alone starts three servers on loopback addresses. Nothing else should run meanwhile."
)]
pub struct CheetahArgs {
    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/cheetah")]
    pub out: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Few objects and one round, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// How often everything is measured [default: 3, what takes long 1; with --quick 1]
    #[arg(long)]
    pub rounds: Option<u32>,

    /// What all choices come from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub lab: LabArgs,
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Latencies of put, get and delete, by size and concurrency (figure 5)
    Latency,
    /// Puts with ordered writes (figure 9)
    Ordered,
    /// Read, delete, put (figure 8)
    Replace,
    /// Rates of puts, by concurrency (figure 7)
    Throughput,
    /// A trace with many deletes: rates, latencies, efficiency of space (figures 16 to 18)
    Trace,
    /// Puts while Haystack compacts (figure 19)
    Compaction,
    /// The device through the page cache of a file system (figure 10)
    Filesystem,
    /// Records of the engine beside a thin directory (figure 13)
    Directory,
    /// Mixes of puts, gets and deletes (figure 20)
    Mixes,
    /// What a put waits for (figure 6)
    Steps,
    /// Settings of the store for metadata (figure 11)
    Settings,
    /// Meta servers with targets that do nothing, counted (figure 12)
    Servers,
    /// A node comes (figure 14), and another one is lost with its disk
    Expansion,
    /// The primary of placement groups is killed: servers as processes (figure 15)
    Crash,
    /// METAX in memory
    Memory,
    /// One, two and three copies
    Copies,
}

impl Experiment {
    /// In the order in which they run.
    pub const ALL: [Experiment; 16] = [
        Experiment::Latency,
        Experiment::Ordered,
        Experiment::Replace,
        Experiment::Throughput,
        Experiment::Trace,
        Experiment::Compaction,
        Experiment::Filesystem,
        Experiment::Directory,
        Experiment::Mixes,
        Experiment::Steps,
        Experiment::Settings,
        Experiment::Servers,
        Experiment::Expansion,
        Experiment::Crash,
        Experiment::Memory,
        Experiment::Copies,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Experiment::Latency => "latency",
            Experiment::Ordered => "ordered",
            Experiment::Replace => "replace",
            Experiment::Throughput => "throughput",
            Experiment::Trace => "trace",
            Experiment::Compaction => "compaction",
            Experiment::Filesystem => "filesystem",
            Experiment::Directory => "directory",
            Experiment::Mixes => "mixes",
            Experiment::Steps => "steps",
            Experiment::Settings => "settings",
            Experiment::Servers => "servers",
            Experiment::Expansion => "expansion",
            Experiment::Crash => "crash",
            Experiment::Memory => "memory",
            Experiment::Copies => "copies",
        }
    }
}

impl CheetahArgs {
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS }).max(1)
    }

    /// How often what takes long is measured.
    pub fn long_rounds(&self) -> u32 {
        self.rounds.unwrap_or(1).max(1)
    }

    /// What is to be run.
    pub fn experiments(&self) -> Vec<Experiment> {
        Experiment::ALL.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}
