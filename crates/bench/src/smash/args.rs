//! The options of `bench smash`.

use crate::systems::LabArgs;
use std::path::PathBuf;

/// Placement and lookup in the chunk store: the Smash paper's tables 2 and 4 and figures 6 to 11 and 13 to 15.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "migration, dram, traffic and heat are computed: they need no server and no disk, a few minutes and up to 3 GB of memory.\n\
                  latency, failure, addition and scale start six and more nodes as processes of this program on loopback addresses, and remove\n\
                  their data afterwards. On two cores they take about 14 minutes and up to 20 GB; nothing else should run meanwhile."
)]
pub struct SmashArgs {
    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/smash")]
    pub out: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Small clusters and few objects, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// What all randomness comes from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub lab: LabArgs,
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// What moves when a node is added (table 2)
    Migration,
    /// Memory of the units, by formula and as built (figure 6, section 4.7)
    Dram,
    /// Flows by distance (figure 13)
    Traffic,
    /// Heat of the nodes (figure 14)
    Heat,
    /// Latencies of put, get, modify and delete, beside CRUSH and MapX (figures 7, 8, 9 and 11)
    Latency,
    /// A node's end: what clients see, and until all chunks have their copies again (figure 10)
    Failure,
    /// A node's coming: until it has its first chunk, and what moves (table 4)
    Addition,
    /// Latencies by the number of nodes, and of copies (figure 15)
    Scale,
}

impl Experiment {
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Migration => "migration",
            Experiment::Dram => "dram",
            Experiment::Traffic => "traffic",
            Experiment::Heat => "heat",
            Experiment::Latency => "latency",
            Experiment::Failure => "failure",
            Experiment::Addition => "addition",
            Experiment::Scale => "scale",
        }
    }

    /// Whether it starts servers and measures them.
    pub fn is_measured(self) -> bool {
        matches!(self, Experiment::Latency | Experiment::Failure | Experiment::Addition | Experiment::Scale)
    }

    /// What it shows.
    pub fn purpose(self) -> &'static str {
        match self {
            Experiment::Migration => "what moves when a node is added",
            Experiment::Dram => "memory of the units, by formula and as built",
            Experiment::Traffic => "flows by distance, near placement beside CRUSH",
            Experiment::Heat => "sums of hot values of the nodes, relocations beside CRUSH",
            Experiment::Latency => "latencies with six nodes as processes, beside CRUSH and MapX",
            Experiment::Failure => "a node of six ends, under load",
            Experiment::Addition => "nodes come to six, under load",
            Experiment::Scale => "latencies by the number of nodes, and of copies",
        }
    }
}

impl SmashArgs {
    /// What is to be run, in the paper's order.
    pub fn experiments(&self) -> Vec<Experiment> {
        let all = [
            Experiment::Migration,
            Experiment::Dram,
            Experiment::Traffic,
            Experiment::Heat,
            Experiment::Latency,
            Experiment::Failure,
            Experiment::Addition,
            Experiment::Scale,
        ];
        all.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}
