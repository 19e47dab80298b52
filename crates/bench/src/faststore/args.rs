//! The options of `bench faststore`.

use std::path::PathBuf;

/// Writes in place beside BlueStore's: the FastStore paper's tables I, II and IV and figures 5 and 15.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Both paths write to a file of 1 GB in a folder, through the code that devices use, and remove it afterwards. schemes and strategies\n\
                  count what the device is asked for; repeats also times it: nothing else should run meanwhile."
)]
pub struct FaststoreArgs {
    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/faststore")]
    pub out: PathBuf,

    /// Folder for the file that is written to; what is made in it is removed
    #[arg(long, default_value = "./trilith-bench")]
    pub work: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Few objects and one round, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// What all contents come from
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Device writes and reads of five repeated writes (table I)
    Schemes,
    /// What each write does, by size, alignment and min_alloc_size (table II)
    Strategies,
    /// Rates and latencies of five repeated writes, and how much they vary (figures 5 and 15, table IV)
    Repeats,
}

impl Experiment {
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Schemes => "schemes",
            Experiment::Strategies => "strategies",
            Experiment::Repeats => "repeats",
        }
    }

    pub fn is_timed(self) -> bool {
        self == Experiment::Repeats
    }

    /// What it shows.
    pub fn purpose(self) -> &'static str {
        match self {
            Experiment::Schemes => "what the device is asked for by five repeated writes",
            Experiment::Strategies => "what each write does, by size, alignment and min_alloc_size",
            Experiment::Repeats => "rates and latencies of five repeated writes, and how much they vary",
        }
    }
}

impl FaststoreArgs {
    /// What is to be run, in the paper's order.
    pub fn experiments(&self) -> Vec<Experiment> {
        let all = [Experiment::Schemes, Experiment::Strategies, Experiment::Repeats];
        all.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }
}
