//! `cargo xtask fuzz`: libFuzzer on the decoders, through cargo-fuzz.
//!
//! libFuzzer's instrumentation needs a nightly compiler; everything else builds on the stable one. The list of targets is read
//! from `fuzz/Cargo.toml`, so that it cannot lag. What a run found interesting is kept in `fuzz/corpus` (not committed);
//! examples to start from may stand in `fuzz/seeds/TARGET` and words of the language in `fuzz/dictionaries/TARGET.dict`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::workspace::{FUZZ_FEATURE, root};

const TOOLCHAIN: &str = "nightly";
const SECONDS_DEFAULT: u64 = 60;
/// Longest input that libFuzzer makes up: above the longest header of a record.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Seconds that one input may take before it is a finding.
const INPUT_LIMIT_S: u64 = 10;
/// Memory that one target may use before libFuzzer calls it a finding.
const MEMORY_LIMIT_MIB: u64 = 2_048;

#[derive(clap::Args)]
pub struct Arguments {
    /// Fuzz target; without one, all of them in turn
    target: Option<String>,
    /// Seconds per target
    // libFuzzer takes 0 for "without end".
    #[arg(long, default_value_t = SECONDS_DEFAULT, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// With the address sanitizer: several times slower, and of use only where `unsafe` code is reached (`log_walk`)
    #[arg(long)]
    address: bool,
    /// List the targets
    #[arg(long)]
    list: bool,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    bin: Vec<Binary>,
}

#[derive(Deserialize)]
struct Binary {
    name: String,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let root = root()?;
    let targets = targets(&root)?;
    if arguments.list {
        targets.iter().for_each(|target| println!("{target}"));
        return Ok(());
    }
    let chosen = chosen(&targets, arguments)?;
    require_tools()?;
    let mut failed = Vec::new();
    for target in chosen {
        if !fuzz(&root, target, arguments)? {
            failed.push(target);
        }
    }
    if !failed.is_empty() {
        bail!("{} did not pass: inputs that failed lie under fuzz/artifacts, errors of a build stand above", failed.join(", "));
    }
    Ok(())
}

fn targets(root: &Path) -> Result<Vec<String>> {
    let path = root.join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Manifest = toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))?;
    Ok(manifest.bin.into_iter().map(|binary| binary.name).collect())
}

fn chosen<'a>(targets: &'a [String], arguments: &Arguments) -> Result<Vec<&'a str>> {
    let wanted = |name: &&str| arguments.target.as_deref().is_none_or(|wanted| wanted == *name);
    let chosen: Vec<&str> = targets.iter().map(String::as_str).filter(wanted).collect();
    if chosen.is_empty() {
        bail!("no such fuzz target; `cargo xtask fuzz --list` names them");
    }
    Ok(chosen)
}

fn nightly_cargo() -> Command {
    let mut command = Command::new("rustup");
    // We were started by a cargo of the stable toolchain; what it set must not reach the nightly one.
    command.args(["run", TOOLCHAIN, "cargo"]).env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command
}

fn require_tools() -> Result<()> {
    let status = nightly_cargo().args(["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        bail!("fuzzing needs `rustup toolchain install {TOOLCHAIN}` and `cargo install cargo-fuzz`");
    }
    Ok(())
}

fn fuzz(root: &Path, target: &str, arguments: &Arguments) -> Result<bool> {
    let corpus = corpus(target);
    std::fs::create_dir_all(root.join(&corpus)).with_context(|| format!("cannot make {corpus}"))?;
    println!("--- fuzz {target} for {} s", arguments.seconds);
    let status = command(root, target, arguments).stdin(Stdio::null()).status().context("cannot start cargo-fuzz")?;
    Ok(status.success())
}

fn corpus(target: &str) -> String {
    format!("fuzz/corpus/{target}")
}

fn command(root: &Path, target: &str, arguments: &Arguments) -> Command {
    let seconds = arguments.seconds;
    let sanitizer = if arguments.address { "address" } else { "none" };
    let seeds = format!("fuzz/seeds/{target}");
    let dictionary = format!("fuzz/dictionaries/{target}.dict");
    let mut command = nightly_cargo();
    command.args([
        "fuzz",
        "run",
        "--sanitizer",
        sanitizer,
        "--target-dir",
        "target/fuzz",
        "--features",
        FUZZ_FEATURE,
        target,
        &corpus(target),
    ]);
    if root.join(&seeds).is_dir() {
        command.arg(&seeds);
    }
    command.arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-timeout={INPUT_LIMIT_S}"),
        "-print_final_stats=1".to_owned(),
    ]);
    if root.join(&dictionary).is_file() {
        command.arg(format!("-dict={dictionary}"));
    }
    // A target a minute is built: link-time optimisation of the release profile would be most of it.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests;
