//! One step of a run: a command with a time limit, whose tests are counted.
//!
//! The limit is per step and kills the whole process group, so that a hanging test can neither hold up CI for ever nor
//! leave a server behind.

mod failures;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use failures::Failures;

/// How often a running step is looked at.
const POLL_INTERVAL_MS: u64 = 50;
/// A step that ends with this code, after a line that says why, can't be carried out on this machine.
const LEFT_OUT_CODE: i32 = 77;
const LEFT_OUT_LINE: &str = "left out: ";

/// What cargo sets for this program begins so. A crate of C code would be built anew for a cargo that has these variables, and after that for one that has them not.
const OWN_VARIABLES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// A command without the variables that cargo has set for this program.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if OWN_VARIABLES.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            command.env_remove(name);
        }
    }
    command
}

/// What to run, and for how long at most.
pub struct Step {
    pub name: &'static str,
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, String)>,
    pub limit: Duration,
}

/// What came of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub counts: Counts,
    /// Why the step failed; none if it passed.
    pub failure: Option<String>,
    /// Why it did nothing, by its own words, if it did nothing.
    pub left_out: Option<String>,
    /// What its runners said of the tests that failed.
    pub failed_tests: Vec<String>,
}

impl Outcome {
    /// Of a step that did not come to run a test.
    pub fn failed(why: String) -> Self {
        Self { failure: Some(why), ..Self::default() }
    }
}

/// Tests that ran, by their own runners' summaries.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Reads the summary line of libtest (`test result: ok. 3 passed; 0 failed; …`) or of pytest (`3 passed, 1 failed in
    /// 0.2s`); any other line counts nothing.
    fn of_line(line: &str) -> Self {
        let words: Vec<&str> = line.trim_matches('=').split_whitespace().collect();
        let is_libtest = line.starts_with("test result: ");
        let is_pytest = words.contains(&"in") && words.last().is_some_and(|word| is_duration(word));
        let mut counts = Self::default();
        if !is_libtest && !is_pytest {
            return counts;
        }
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1].trim_end_matches([';', ',']) {
                "passed" => counts.passed += number,
                "failed" | "error" | "errors" => counts.failed += number,
                "ignored" | "skipped" => counts.ignored += number,
                _ => {}
            }
        }
        counts
    }
}

/// pytest ends its summary with `0.21s`, or with `(0:01:05)` after a minute.
fn is_duration(word: &str) -> bool {
    let seconds = word.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok());
    seconds || (word.starts_with('(') && word.ends_with(')') && word.contains(':'))
}

impl Step {
    /// Shows what the step writes as it comes.
    pub fn run(&self, root: &Path) -> Result<Outcome> {
        println!("{}", self.headline());
        self.carry_out(root, |line| println!("{line}"))
    }

    /// Shows what the step wrote when it has ended: others run at the same time.
    pub fn run_beside_others(&self, root: &Path) -> Result<Outcome> {
        let text = Arc::new(Mutex::new(self.headline()));
        let writer = text.clone();
        let outcome = self.carry_out(root, move |line| {
            let mut text = writer.lock().unwrap_or_else(PoisonError::into_inner);
            text.push('\n');
            text.push_str(line);
        });
        println!("{}", text.lock().unwrap_or_else(PoisonError::into_inner));
        outcome
    }

    fn headline(&self) -> String {
        format!("--- {}: {} {}", self.name, self.program, self.arguments.join(" "))
    }

    fn carry_out(&self, root: &Path, mut show: impl FnMut(&str) + Send + 'static) -> Result<Outcome> {
        let mut child = command(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(key, value)| (*key, value.as_str())))
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{}`", self.program))?;
        let output = child.stdout.take().context("the step's output is not piped")?;
        let reader = std::thread::spawn(move || copy_and_count(output, &mut show));
        let (ended, elapsed) = self.wait(&mut child)?;
        println!("--- {} took {} s", self.name, elapsed.as_secs());
        let written = reader.join().unwrap_or_default();
        let failure = match ended {
            Err(failure) => Some(failure),
            Ok(status) if status.success() => None,
            Ok(status) if status.code() == Some(LEFT_OUT_CODE) && written.left_out.is_some() => {
                let left_out = written.left_out.map(|reason| format!("{}: {reason}", self.name));
                return Ok(Outcome { left_out, ..written });
            }
            Ok(status) => Some(format!("{}: {status}", self.name)),
        };
        Ok(Outcome { failure, left_out: None, ..written })
    }

    /// How the step ended, or that it had to be stopped; and how long it ran.
    #[expect(clippy::disallowed_methods, reason = "a real limit on a real process; nothing here is simulated")]
    fn wait(&self, child: &mut Child) -> Result<(Result<ExitStatus, String>, Duration)> {
        let started = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((Ok(status), started.elapsed()));
            }
            if started.elapsed() > self.limit {
                let group = Pid::from_child(child);
                kill_process_group(group, Signal::KILL).context("cannot stop a step that ran past its limit")?;
                child.wait()?;
                let failure = format!("{}: stopped after its limit of {} s", self.name, self.limit.as_secs());
                return Ok((Err(failure), started.elapsed()));
            }
            std::thread::sleep(Duration::from_millis(POLL_INTERVAL_MS));
        }
    }
}

/// What the step's tests came to, and why it was left out if it says so.
fn copy_and_count(output: impl Read, show: &mut dyn FnMut(&str)) -> Outcome {
    let mut outcome = Outcome::default();
    let mut failures = Failures::default();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        show(&line);
        failures.see(&line);
        let counts = Counts::of_line(&line);
        if counts != Counts::default() {
            failures.end();
        }
        outcome.counts.add(counts);
        outcome.left_out = outcome.left_out.or_else(|| line.strip_prefix(LEFT_OUT_LINE).map(str::to_owned));
    }
    Outcome { failed_tests: failures.into_lines(), ..outcome }
}

#[cfg(test)]
mod tests;
