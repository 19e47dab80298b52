//! The options of `bench smash`.

use std::path::PathBuf;

/// Placement and lookup in the chunk store, computed and simulated: the Smash paper's table 2 and figures 6, 13 and 14.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Needs no server and no disk. Everything takes a few minutes and up to 3 GB of memory.")]
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
}

impl Experiment {
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Migration => "migration",
            Experiment::Dram => "dram",
            Experiment::Traffic => "traffic",
            Experiment::Heat => "heat",
        }
    }

    /// What it shows.
    pub fn purpose(self) -> &'static str {
        match self {
            Experiment::Migration => "what moves when a node is added",
            Experiment::Dram => "memory of the units, by formula and as built",
            Experiment::Traffic => "flows by distance, near placement beside CRUSH",
            Experiment::Heat => "sums of hot values of the nodes, relocations beside CRUSH",
        }
    }
}

impl SmashArgs {
    /// What is to be run, in the paper's order.
    pub fn experiments(&self) -> Vec<Experiment> {
        let all = [Experiment::Migration, Experiment::Dram, Experiment::Traffic, Experiment::Heat];
        all.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}
