//! `cargo xtask tidy`: the rules of this repository that a compiler does not know.
//!
//! Each check is a function from text (or from the crate graph) to findings, so that its tests can show it both a
//! repository that breaks the rule and one that keeps it. Errors fail the run; warnings are advice about size.

mod docs;
mod formats;
mod graph;
mod policy;
mod rust;
mod source;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use source::SourceFile;

#[derive(clap::Args)]
pub struct Arguments {
    /// Only list the crate roots that lack `#![forbid(unsafe_code)]`
    #[arg(long)]
    missing_forbid: bool,
    /// Only compare the table in ARCHITECTURE.md with the crates' manifests
    #[arg(long)]
    graph: bool,
    /// Leave warnings out
    #[arg(long)]
    quiet: bool,
}

/// One broken rule, or one piece of advice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    severity: Severity,
    place: String,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Warning,
    Error,
}

impl Finding {
    fn error(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place: place.into(), message: message.into() }
    }

    fn warning(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{label}: {}: {}", self.place, self.message)
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let workspace = Workspace::load()?;
    if arguments.missing_forbid {
        let sources = load_sources(&workspace.root)?;
        return report(rust::missing_forbid(&workspace, &sources), false);
    }
    if arguments.graph {
        return report(graph::check(&workspace)?, false);
    }
    report(all_findings(&workspace)?, arguments.quiet)
}

/// All checks at once, as `cargo xtask check` runs them.
pub fn check(workspace: &Workspace) -> Result<()> {
    report(all_findings(workspace)?, false)
}

fn all_findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let sources = load_sources(&workspace.root)?;
    let mut findings = graph::check(workspace)?;
    findings.extend(rust::check(workspace, &sources));
    findings.extend(formats::check(&sources));
    findings.extend(docs::check(&workspace.root, &sources)?);
    findings.extend(policy::check(workspace)?);
    Ok(findings)
}

fn report(mut findings: Vec<Finding>, quiet: bool) -> Result<()> {
    findings.sort();
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    for finding in findings.iter().filter(|finding| !quiet || finding.severity == Severity::Error) {
        println!("{finding}");
    }
    println!("tidy: {errors} errors, {warnings} warnings");
    if errors > 0 {
        bail!("the repository breaks {errors} of its own rules (listed above)");
    }
    Ok(())
}

/// Every Rust file under `crates/` and `fuzz/`, masked and marked.
fn load_sources(root: &Path) -> Result<Vec<SourceFile>> {
    let mut paths = Vec::new();
    for top in ["crates", "fuzz"] {
        collect_files(&root.join(top), "rs", &mut paths)?;
    }
    let mut texts = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        texts.push((relative, text));
    }
    Ok(source::load(texts))
}

/// Adds all files below `folder` with the extension to `found`, in a stable order; build outputs and hidden folders are
/// passed over.
fn collect_files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        entries.push(entry?.path());
    }
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // Cargo's output folder, not the crate of that name.
            let is_output = name == "target" && !path.join("Cargo.toml").exists();
            let skipped = name.starts_with('.')
                || is_output
                || ["corpus", "artifacts", "trilith-data", "node_modules"].contains(&name.as_str());
            if !skipped {
                collect_files(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    Ok(())
}
