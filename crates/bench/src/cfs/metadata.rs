//! mdtest's operations (paper, section 6.2): directories, files and trees, made, asked for and removed.
//!
//! Each phase is one operation on all items of all workers. A worker asks for what its neighbour made (mdtest's stride): with several
//! clients no answer comes from its own client's memory of what it made itself.

use super::folders::{System, Work, drop_caches};
use super::outcome::Figure;
use super::workers::{rate, together};
use super::{CfsArgs, Experiment};
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// A tree is a directory with so many levels of directories below it,
const TREE_DEPTH: u32 = 2;
/// each with so many directories,
const TREE_BRANCHES: u32 = 4;
/// and each directory has so many empty files.
const TREE_FILES: u32 = 5;
/// Files and directories of one process for each of its trees.
const ITEMS_A_TREE: u32 = 50;

/// Where workers make their items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// mdtest's `-u`.
    Unique,
    Shared,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Unique => "own directories",
            Layout::Shared => "one directory",
        }
    }

    /// Where a worker's items are, seen through a client.
    fn folder(self, root: &Path, worker: usize) -> PathBuf {
        match self {
            Layout::Unique => root.join(format!("worker-{worker}")),
            Layout::Shared => root.join("all"),
        }
    }
}

/// A phase. The paper's seven, and two more: `FileStat` is mdtest's, `List` is what the paper says of its `DirStat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    DirCreation,
    DirStat,
    DirRemoval,
    FileCreation,
    FileStat,
    List,
    FileRemoval,
    TreeCreation,
    TreeRemoval,
}

impl Operation {
    const ALL: [Operation; 9] = [
        Operation::DirCreation,
        Operation::DirStat,
        Operation::DirRemoval,
        Operation::FileCreation,
        Operation::FileStat,
        Operation::List,
        Operation::FileRemoval,
        Operation::TreeCreation,
        Operation::TreeRemoval,
    ];

    fn name(self) -> &'static str {
        match self {
            Operation::DirCreation => "DirCreation",
            Operation::DirStat => "DirStat",
            Operation::DirRemoval => "DirRemoval",
            Operation::FileCreation => "FileCreation",
            Operation::FileStat => "FileStat",
            Operation::List => "List",
            Operation::FileRemoval => "FileRemoval",
            Operation::TreeCreation => "TreeCreation",
            Operation::TreeRemoval => "TreeRemoval",
        }
    }

    /// Whether what it asks for is asked for the first time since caches were dropped.
    fn is_cold(self) -> bool {
        matches!(self, Operation::DirStat | Operation::FileStat | Operation::List)
    }
}

/// One client with each number of processes.
pub fn by_processes(args: &CfsArgs, system: &System) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for processes in args.processes() {
        for layout in [Layout::Unique, Layout::Shared] {
            figures.extend(phases(args, system, layout, 1, processes)?.into_iter().map(|(operation, per_second)| Figure {
                place: layout.name(),
                operation: operation.name(),
                at: processes as u64,
                per_second,
            }));
        }
    }
    Ok(figures)
}

/// One client up to all of them, each with the most processes.
pub fn by_clients(args: &CfsArgs, system: &System) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for clients in 1..=system.clients() {
        let workers = clients * args.most_processes();
        figures.extend(phases(args, system, Layout::Unique, clients, workers)?.into_iter().map(|(operation, per_second)| {
            Figure { place: Layout::Unique.name(), operation: operation.name(), at: clients as u64, per_second }
        }));
    }
    Ok(figures)
}

/// Every operation, one after the other, and how many a second there were of it.
fn phases(
    args: &CfsArgs,
    system: &System,
    layout: Layout,
    clients: usize,
    workers: usize,
) -> anyhow::Result<Vec<(Operation, f64)>> {
    let work = system.work(clients)?;
    for worker in 0..workers {
        fs::create_dir_all(layout.folder(work.through(0), worker)).context("making a working directory")?;
    }
    let phase = Phase { work: &work, layout, workers, items: args.items() };
    let mut rates = Vec::new();
    for operation in Operation::ALL {
        drop_caches(args.drop_caches && operation.is_cold())?;
        let took = together(workers, |worker| phase.run(operation, worker)).with_context(|| operation.name())?;
        rates.push((operation, rate(phase.count(operation), took)));
    }
    work.remove()?;
    Ok(rates)
}

/// What all workers do at once.
struct Phase<'a> {
    work: &'a Work,
    layout: Layout,
    workers: usize,
    /// Of each worker.
    items: u32,
}

impl Phase<'_> {
    fn trees(&self) -> u32 {
        self.items.div_ceil(ITEMS_A_TREE)
    }

    /// How many of an operation there are.
    fn count(&self, operation: Operation) -> u64 {
        let of_each = match operation {
            Operation::TreeCreation | Operation::TreeRemoval => self.trees(),
            _ => self.items,
        };
        u64::from(of_each) * self.workers as u64
    }

    /// A worker's item, as another worker's client shows it.
    fn item(&self, kind: &str, owner: usize, through: usize, number: u32) -> PathBuf {
        self.layout.folder(self.work.through(through), owner).join(format!("{kind}-{owner}-{number}"))
    }

    fn run(&self, operation: Operation, worker: usize) -> anyhow::Result<()> {
        let neighbour = (worker + 1) % self.workers;
        match operation {
            Operation::DirCreation => self.each("dir", worker, worker, |path| fs::create_dir(path)),
            Operation::DirStat => self.ask("dir", neighbour, worker, true),
            Operation::DirRemoval => self.each("dir", worker, worker, |path| fs::remove_dir(path)),
            Operation::FileCreation => self.each("file", worker, worker, |path| fs::File::create_new(path).map(drop)),
            Operation::FileStat => self.ask("file", neighbour, worker, false),
            Operation::List => self.list(neighbour, worker),
            Operation::FileRemoval => self.each("file", worker, worker, |path| fs::remove_file(path)),
            Operation::TreeCreation => (0..self.trees()).try_for_each(|number| {
                let root = self.item("tree", worker, worker, number);
                grow(&root, TREE_DEPTH).with_context(|| root.display().to_string())
            }),
            Operation::TreeRemoval => (0..self.trees()).try_for_each(|number| {
                let root = self.item("tree", worker, worker, number);
                fs::remove_dir_all(&root).with_context(|| root.display().to_string())
            }),
        }
    }

    fn each(
        &self,
        kind: &str,
        owner: usize,
        through: usize,
        call: impl Fn(&Path) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        for number in 0..self.items {
            let path = self.item(kind, owner, through, number);
            call(&path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Each item is there, and is what it was made as.
    fn ask(&self, kind: &str, owner: usize, through: usize, is_dir: bool) -> anyhow::Result<()> {
        self.each(kind, owner, through, |path| match fs::symlink_metadata(path)?.is_dir() == is_dir {
            true => Ok(()),
            false => Err(std::io::Error::other("it is of another kind than it was made")),
        })
    }

    /// Lists a directory with the attributes of each entry. In a shared one each worker takes its own part of the entries.
    fn list(&self, owner: usize, through: usize) -> anyhow::Result<()> {
        let folder = self.layout.folder(self.work.through(through), owner);
        let beginning = format!("file-{owner}-");
        let mut found = 0;
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(beginning.as_bytes()) {
                ensure!(entry.metadata()?.is_file(), "{} is no file", entry.path().display());
                found += 1;
            }
        }
        ensure!(found == self.items, "{} lists {found} files of {}", folder.display(), self.items);
        Ok(())
    }
}

/// A directory with files and directories, so many levels deep.
fn grow(root: &Path, depth: u32) -> std::io::Result<()> {
    fs::create_dir(root)?;
    for number in 0..TREE_FILES {
        fs::File::create_new(root.join(format!("file-{number}")))?;
    }
    if depth > 0 {
        for number in 0..TREE_BRANCHES {
            grow(&root.join(format!("dir-{number}")), depth - 1)?;
        }
    }
    Ok(())
}

/// How it was measured, a line each.
pub fn notes(args: &CfsArgs, experiment: Experiment) -> Vec<String> {
    let directories: u32 = (0..=TREE_DEPTH).map(|level| TREE_BRANCHES.pow(level)).sum();
    let workers = match experiment {
        Experiment::Clients => format!("{} processes on each client", args.most_processes()),
        _ => "All processes on one client".to_owned(),
    };
    vec![
        format!(
            "{workers}. Each has {} directories and {} empty files. All processes begin an operation together; its rate is that of the last one to end.",
            args.items(),
            args.items()
        ),
        format!(
            "A tree has {directories} directories with {TREE_FILES} files each; a process makes and removes {}. Rates of trees are trees a second.",
            args.items().div_ceil(ITEMS_A_TREE)
        ),
        "DirStat and FileStat ask by name for each directory and file of another process. List reads a directory and asks for each of its files. \
         The paper's seven are all but FileStat and List; it describes its DirStat as a listing."
            .to_owned(),
    ]
}
