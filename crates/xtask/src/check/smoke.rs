//! The small part of `tests/cluster` that every check makes: a cluster of three hosts that loses a process and links.
//!
//! It needs root and network namespaces; where there are none the run says so and is left out. The program and the clients
//! whose histories are judged are those that the steps before have built.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{PROGRAM, PROGRAM_TESTS as TESTS, PYTHON};
use crate::step::{Outcome, Step, command};
use crate::workspace::cargo;

const NAME: &str = "cluster smoke";
const FOLDER: &str = "tests/cluster";
/// Where the nodes' devices are made: beside what is built, for `/tmp` may be memory.
const DATA: &str = "target/cluster-smoke";
/// Several times what it takes.
const LIMIT: Duration = Duration::from_secs(5 * 60);

pub fn run(root: &Path) -> Result<Outcome> {
    let Some(histories) = built_tests(root)? else {
        return Ok(Outcome::failed(format!("{NAME}: the tests `{TESTS}` are not built")));
    };
    step(root, &histories).run_beside_others(root)
}

fn step(root: &Path, histories: &Path) -> Step {
    let (program, histories) = (root.join(PROGRAM), histories.to_string_lossy().into_owned());
    let program = program.to_string_lossy().into_owned();
    let words = ["-u", FOLDER, "--smoke", "--folder", DATA, "--program", &program, "--histories", &histories];
    Step {
        name: NAME,
        program: root.join(PYTHON).to_string_lossy().into_owned(),
        arguments: words.map(str::to_owned).to_vec(),
        environment: Vec::new(),
        limit: LIMIT,
    }
}

/// Where cargo put the tests; it has nothing to do, having run them a moment ago.
fn built_tests(root: &Path) -> Result<Option<PathBuf>> {
    let output = command(&cargo())
        .args(["test", "--locked", "--workspace", "--test", TESTS, "--no-run", "--quiet", "--message-format=json"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    Ok(if output.status.success() { executable(&String::from_utf8_lossy(&output.stdout)) } else { None })
}

/// A message of cargo, as far as it is asked.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// The executable of the tests, among cargo's messages.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    messages
        .filter(|message| message.target.as_ref().is_some_and(|target| target.name == TESTS))
        .find_map(|message| message.executable)
}

#[cfg(test)]
mod tests;
