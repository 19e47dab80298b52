//! `cargo xtask check`: what every change must pass, in the order from cheap to dear.
//!
//! One profile and one feature set: `clippy` checks the same resolution that the tests build, and the tests build every
//! target once, so that the server that the end-to-end suites start is the one that the tests linked. The fuzz targets are
//! linted with everything else and not built: libFuzzer wants another compiler (`cargo xtask fuzz`). Tests that compute run beside tests
//! that wait.

mod smoke;

use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::step::{Counts, Outcome, Step};
use crate::workspace::{FUZZ_CRATE, FUZZ_FEATURE, cargo, root};
use crate::{tidy, workspace};

/// The Python that `./test` prepares, with the pinned clients of `tests/requirements.txt`.
const PYTHON: &str = "target/venv/bin/python";
const PROGRAM: &str = "target/debug/trilith";
/// The integration tests of the program, whose processes wait for each other, with the clients among them that the smoke test uses.
const PROGRAM_TESTS: &str = "program";
/// A file that stays: cargo runs libFuzzer's build script again when the one that it was told of changes.
const FUZZ_MANIFEST: &str = "fuzz/Cargo.toml";
const END_TO_END_FOLDER: &str = "tests/e2e";
/// Files of suites side by side: most of their time they wait.
const END_TO_END: [&str; 8] =
    ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=3", "--dist=loadfile", END_TO_END_FOLDER];

#[derive(clap::Args)]
pub struct Arguments {
    /// Also run the suites under tests/e2e against the built program (`./test` prepares what they need)
    #[arg(long)]
    end_to_end: bool,
    /// Run every step even when an earlier one failed
    #[arg(long)]
    keep_going: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let mut report = Report::default();
    let workspace = workspace::Workspace::load()?;
    for step in builds(&root) {
        report.add(step.run(&root)?);
        if !report.goes_on(arguments) {
            return report.finish();
        }
        if step.name == "fmt" {
            report.add(tidy_outcome(&workspace));
        }
    }
    let (computing, waiting) = thread::scope(|scope| {
        let computing = scope.spawn(|| run_lane(&root, &computing_tests(&workspace), arguments));
        let waiting = run_lane(&root, &waiting_tests(&root, arguments.end_to_end), arguments);
        (computing.join(), waiting)
    });
    computing
        .map_err(|_| anyhow!("the thread of the tests that compute failed"))??
        .into_iter()
        .for_each(|outcome| report.add(outcome));
    waiting?.into_iter().for_each(|outcome| report.add(outcome));
    if arguments.end_to_end && report.goes_on(arguments) {
        report.add(smoke::run(&root)?);
    }
    report.finish()
}

/// Steps one after the other, beside those of another lane.
fn run_lane(root: &Path, steps: &[Step], arguments: &Arguments) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for step in steps {
        let outcome = step.run_beside_others(root)?;
        let goes_on = outcome.failure.is_none() || arguments.keep_going;
        outcomes.push(outcome);
        if !goes_on {
            break;
        }
    }
    Ok(outcomes)
}

/// Collects outcomes and tells them once, last.
#[derive(Default)]
pub struct Report {
    counts: Counts,
    failures: Vec<String>,
    left_out: Vec<String>,
    failed_tests: Vec<String>,
}

impl Report {
    pub fn add(&mut self, outcome: Outcome) {
        self.counts.add(outcome.counts);
        self.failures.extend(outcome.failure);
        self.left_out.extend(outcome.left_out);
        self.failed_tests.extend(outcome.failed_tests);
    }

    fn goes_on(&self, arguments: &Arguments) -> bool {
        self.failures.is_empty() || arguments.keep_going
    }

    /// What the runners said of failed tests comes once more, for a log that keeps its end only.
    /// The last line is the sum of what the test runners themselves reported, with steps that failed without a failing
    /// test (formatting, clippy, a crash of the runner) counted as one failure each.
    pub fn finish(self) -> Result<()> {
        for what in &self.left_out {
            println!("left out: {what}");
        }
        for line in &self.failed_tests {
            println!("{line}");
        }
        for failure in &self.failures {
            println!("failed step: {failure}");
        }
        if self.counts.ignored > 0 {
            println!("{} tests ignored (the long counts: `cargo xtask soak`)", self.counts.ignored);
        }
        let failed = self.counts.failed.max(self.failures.len() as u64);
        println!("{} passed, {failed} failed", self.counts.passed);
        if failed > 0 {
            bail!("the check failed");
        }
        Ok(())
    }
}

fn tidy_outcome(workspace: &workspace::Workspace) -> Outcome {
    println!("--- tidy");
    let failure = tidy::check(workspace).err().map(|error| format!("tidy: {error:#}"));
    Outcome { failure, ..Outcome::default() }
}

fn builds(root: &Path) -> Vec<Step> {
    let fuzz_targets = format!("{FUZZ_CRATE}/{FUZZ_FEATURE}");
    let lint = ["clippy", "--locked", "--workspace", "--all-targets", "--features", &fuzz_targets];
    let lint = [&lint[..], &["--", "-D", "warnings", "-D", "clippy::too_many_lines"]].concat();
    vec![
        cargo_step("fmt", &["fmt", "--all", "--check"], Duration::from_secs(120)),
        Step {
            // Nothing links the fuzz targets here: a path spares compiling libFuzzer, which takes longer than linting them.
            environment: vec![("CUSTOM_LIBFUZZER_PATH", root.join(FUZZ_MANIFEST).to_string_lossy().into_owned())],
            ..cargo_step("clippy", &lint, Duration::from_secs(15 * 60))
        },
        // Building everything at once resolves features once; a later `cargo test` finds all of it done.
        cargo_step("build", &["build", "--locked", "--workspace", "--all-targets"], Duration::from_secs(30 * 60)),
    ]
}

/// All tests but those of [`waiting_tests`].
fn computing_tests(workspace: &workspace::Workspace) -> [Step; 2] {
    let mut targets = vec!["--lib", "--bins"];
    let tests = workspace.members.iter().flat_map(|member| &member.tests).filter(|name| *name != PROGRAM_TESTS);
    targets.extend(tests.flat_map(|name| ["--test", name]));
    [test_step("test", &targets), test_step("examples of the documentation", &["--doc"])]
}

/// Tests of processes, which wait for each other most of their time.
fn waiting_tests(root: &Path, end_to_end: bool) -> Vec<Step> {
    let mut steps = vec![test_step("test of the program", &["--test", PROGRAM_TESTS])];
    if end_to_end && has_suites(&root.join(END_TO_END_FOLDER)) {
        steps.push(Step {
            name: "end to end",
            program: root.join(PYTHON).to_string_lossy().into_owned(),
            arguments: END_TO_END.map(str::to_owned).to_vec(),
            environment: vec![("TRILITH_BIN", root.join(PROGRAM).to_string_lossy().into_owned())],
            limit: Duration::from_secs(30 * 60),
        });
    }
    steps
}

fn test_step(name: &'static str, targets: &[&str]) -> Step {
    let arguments = [&["test", "--locked", "--workspace", "--no-fail-fast"], targets].concat();
    Step { environment: test_environment(), ..cargo_step(name, &arguments, Duration::from_secs(30 * 60)) }
}

/// Simulated clusters come and go, and glibc gives the kernel back what they had, to ask for it again: 15% of the simulations' time.
const MALLOC_LIMITS: [(&str, u64); 3] =
    [("MALLOC_TRIM_THRESHOLD_", 1 << 30), ("MALLOC_MMAP_THRESHOLD_", 32 << 20), ("MALLOC_TOP_PAD_", 16 << 20)];

fn test_environment() -> Vec<(&'static str, String)> {
    let mut environment = vec![("RUST_TEST_THREADS", test_threads().to_string())];
    environment.extend(MALLOC_LIMITS.map(|(name, bytes)| (name, bytes.to_string())));
    environment
}

/// One more than there are processors: tests of clusters wait for leases and processes most of their time.
fn test_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get) + 1
}

pub fn cargo_step(name: &'static str, arguments: &[&str], limit: Duration) -> Step {
    Step {
        name,
        program: cargo(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: Vec::new(),
        limit,
    }
}

fn has_suites(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.filter_map(Result::ok).any(|entry| entry.file_name().to_string_lossy().starts_with("test_"))
}
