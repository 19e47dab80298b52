//! The options of `bench cheetah`.

use std::path::PathBuf;

const ROUNDS: u32 = 3;

/// The volume engine beside stores that order their writes: the Cheetah paper's figures 5, 7 to 10, 13 and 16 to 20.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "All stores are in this process, on files of 2 GB in a folder, through the code that devices use; the files are removed afterwards.\n\
                  Nothing else should run meanwhile."
)]
pub struct CheetahArgs {
    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/cheetah")]
    pub out: PathBuf,

    /// Folder for the files that are written to; what is made in it is removed
    #[arg(long, default_value = "./trilith-bench")]
    pub work: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Few objects and one round, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// How often everything is measured [default: 3; with --quick 1]
    #[arg(long)]
    pub rounds: Option<u32>,

    /// What all choices come from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
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
}

impl Experiment {
    /// In the order in which they run.
    pub const ALL: [Experiment; 9] = [
        Experiment::Latency,
        Experiment::Ordered,
        Experiment::Replace,
        Experiment::Throughput,
        Experiment::Trace,
        Experiment::Compaction,
        Experiment::Filesystem,
        Experiment::Directory,
        Experiment::Mixes,
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
        }
    }
}

impl CheetahArgs {
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS }).max(1)
    }

    /// What is to be run.
    pub fn experiments(&self) -> Vec<Experiment> {
        Experiment::ALL.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}
