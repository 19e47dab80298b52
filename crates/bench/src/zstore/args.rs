//! The options of `bench zstore`, and how long everything takes.

use crate::s3::parse_duration;
use crate::systems::LabArgs;
use std::path::PathBuf;
use std::time::Duration;

/// Processor time and throughput of a cell of three nodes, and the experiments of the ZStore paper.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Starts what it needs as processes of this program on loopback addresses, and removes their data afterwards. On two cores all\n\
                  experiments take about 20 minutes; nothing else should run meanwhile."
)]
pub struct ZstoreArgs {
    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/zstore")]
    pub out: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Short rounds, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// Rounds of what is measured in turn [default: 7; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,

    /// Length of one measurement [default: 2s; 1s with --quick]
    #[arg(long, short = 'd', value_parser = parse_duration)]
    pub duration: Option<Duration>,

    #[command(flatten)]
    pub lab: LabArgs,
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Processor time per request: three nodes beside one process
    Pairs,
    /// Processor time of a GET with `index = "ludo"` beside the full map (RFD 13)
    Index,
    /// Linearizable beside read-after-write mode, by the share of reads close to a write (figure 6)
    Modes,
    /// The foreground beside checkpoints of 1 and 10 million entries (figure 7)
    Checkpoint,
    /// The foreground beside the failure of a node and its return, with and without pacing (figure 8)
    Failure,
    /// The foreground beside garbage collection, with and without pacing (figure 9)
    Collection,
}

impl Experiment {
    /// What its files are called.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Pairs => "pairs",
            Experiment::Index => "index",
            Experiment::Modes => "modes",
            Experiment::Checkpoint => "checkpoint",
            Experiment::Failure => "failure",
            Experiment::Collection => "collection",
        }
    }

    /// What it shows.
    pub fn purpose(self) -> &'static str {
        match self {
            Experiment::Pairs => "processor time per request of three nodes with three replicas, beside one process",
            Experiment::Index => "processor time of a GET with an index without keys, beside the full map",
            Experiment::Modes => "linearizable beside read-after-write mode, by the share of reads close to a write",
            Experiment::Checkpoint => "the foreground beside checkpoints",
            Experiment::Failure => "the foreground beside the failure of a node and its return",
            Experiment::Collection => "the foreground beside garbage collection",
        }
    }
}

impl ZstoreArgs {
    /// What is to be run: what is ours, then the paper's in its order.
    pub fn experiments(&self) -> Vec<Experiment> {
        let of_the_paper = [Experiment::Modes, Experiment::Checkpoint, Experiment::Failure, Experiment::Collection];
        let all = [Experiment::Pairs, Experiment::Index].into_iter().chain(of_the_paper);
        all.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub quick: bool,
    pub rounds: u32,
    /// One measurement.
    pub duration: Duration,
}

impl Scale {
    pub fn of(args: &ZstoreArgs) -> Scale {
        let (rounds, duration) = if args.quick { (1, Duration::from_secs(1)) } else { (7, Duration::from_secs(2)) };
        Scale { quick: args.quick, rounds: args.rounds.unwrap_or(rounds), duration: args.duration.unwrap_or(duration) }
    }
}
