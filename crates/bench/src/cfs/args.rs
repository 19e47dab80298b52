//! The options of `bench cfs`, and how much is measured.

use super::folders::Folder;
use std::path::PathBuf;

/// Most processes of one measurement.
const MAX_PROCESSES: u64 = 64;
/// Processes by default.
const PROCESSES: [usize; 4] = [1, 2, 4, 8];
const QUICK_PROCESSES: [usize; 2] = [1, 4];
/// Small files have these sizes.
const SIZES_KIB: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const QUICK_SIZES_KIB: [usize; 2] = [1, 128];

/// File systems beside each other: the CFS paper's figures 6, 7, 8 and 10 and table 3.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Works in a folder `trilith-bench` of each folder that is named, and removes it afterwards. The first system is the one that the\n\
                  others are compared with. A name that is given several times has several clients, which must show the same tree.\n\n\
                  Example:\n  trilith bench cfs --folder trilith=/mnt/home --folder cephfs=/mnt/ceph --drop-caches --only metadata,small"
)]
pub struct CfsArgs {
    /// A file system and a folder of it, as NAME=PATH; may be given many times
    #[arg(long = "folder", value_name = "NAME=PATH", required = true)]
    pub folders: Vec<Folder>,

    /// Folder for tables and plots
    #[arg(long, default_value = "docs/evaluation/cfs")]
    pub out: PathBuf,

    /// What to run, separated by commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Experiment>,

    /// Few files and one round, which show that everything runs; the figures mean little
    #[arg(long)]
    pub quick: bool,

    /// Rounds of what is measured in turn [default: 3; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: Option<u32>,

    /// Numbers of processes, separated by commas [default: 1,2,4,8; 1,4 with --quick]
    #[arg(long, value_delimiter = ',', value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_PROCESSES))]
    pub processes: Vec<usize>,

    /// Files and directories of each process [default: 250; 10 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub items: Option<u32>,

    /// MiB of the large file of each process [default: 64; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub large_mib: Option<u32>,

    /// Have the kernel drop its caches before what is read is read for the first time (as root)
    #[arg(long)]
    pub drop_caches: bool,
}

/// One experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// mdtest's operations, by the number of processes (figure 6, table 3)
    Metadata,
    /// The same by the number of clients: the folders of one name (figure 7)
    Clients,
    /// Files of 1 to 128 KiB, created and read (figure 10)
    Small,
    /// Large files, in sequence and at random, by the number of processes (figure 8)
    Large,
}

impl Experiment {
    /// What its files are called.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Metadata => "metadata",
            Experiment::Clients => "clients",
            Experiment::Small => "small",
            Experiment::Large => "large",
        }
    }

    /// What it shows.
    pub fn purpose(self) -> &'static str {
        match self {
            Experiment::Metadata => "operations on directories and files, by processes (figure 6, table 3)",
            Experiment::Clients => "operations on directories and files, by clients (figure 7)",
            Experiment::Small => "small files, by size (figure 10)",
            Experiment::Large => "large files, in sequence and at random, by processes (figure 8)",
        }
    }

    /// What is on the horizontal axis.
    pub fn axis(self) -> &'static str {
        match self {
            Experiment::Metadata | Experiment::Large => "processes",
            Experiment::Clients => "clients",
            Experiment::Small => "KiB",
        }
    }
}

impl CfsArgs {
    /// What is to be run, in the paper's order.
    pub fn experiments(&self) -> Vec<Experiment> {
        let all = [Experiment::Metadata, Experiment::Clients, Experiment::Large, Experiment::Small];
        all.into_iter().filter(|experiment| self.only.is_empty() || self.only.contains(experiment)).collect()
    }

    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }

    /// Numbers of processes to measure with.
    pub fn processes(&self) -> Vec<usize> {
        match (self.processes.is_empty(), self.quick) {
            (false, _) => self.processes.clone(),
            (true, false) => PROCESSES.to_vec(),
            (true, true) => QUICK_PROCESSES.to_vec(),
        }
    }

    /// The greatest of them.
    pub fn most_processes(&self) -> usize {
        self.processes().into_iter().max().unwrap_or(1)
    }

    /// Files and directories of each process.
    pub fn items(&self) -> u32 {
        self.items.unwrap_or(if self.quick { 10 } else { 250 })
    }

    pub fn large_bytes(&self) -> u64 {
        u64::from(self.large_mib.unwrap_or(if self.quick { 1 } else { 64 })) << 20
    }

    pub fn sizes_kib(&self) -> &'static [usize] {
        if self.quick { &QUICK_SIZES_KIB } else { &SIZES_KIB }
    }
}
