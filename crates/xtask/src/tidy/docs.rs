//! Documents: local links lead somewhere, paths that are named exist, and decisions that the code cites are written down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Finding;
use super::source::{SourceFile, line_of};

/// ARCHITECTURE.md is read in one sitting or not at all.
const ARCHITECTURE_LINES_MAX: usize = 500;
/// Where the numbered decisions of the log engine stand.
const DECISIONS_FILE: &str = "docs/rfd/0002-zstore.md";
/// Where decision records stand.
const RECORDS: &str = "docs/rfd/";
/// Code and documents cite decisions as "zstore.md, decision 16" or "decision 16".
const CITATION: &str = "decision ";

pub fn check(root: &Path, sources: &[SourceFile]) -> Result<Vec<Finding>> {
    let documents = load_documents(root)?;
    let exists = |path: &str| root.join(path).exists();
    let decisions =
        documents.iter().find(|document| document.path == DECISIONS_FILE).map(|document| numbered_items(&document.text));
    let records: BTreeSet<String> = documents.iter().filter_map(|document| record_number(&document.path)).collect();
    let mut findings = Vec::new();
    for document in &documents {
        findings.extend(check_records(&document.path, &document.text, &records));
        findings.extend(check_links(document, &documents, exists));
        findings.extend(check_paths(&document.path, &document.text, exists));
        if document.path == "ARCHITECTURE.md" && document.text.lines().count() > ARCHITECTURE_LINES_MAX {
            findings.push(Finding::error(&document.path, format!("is longer than {ARCHITECTURE_LINES_MAX} lines")));
        }
    }
    for source in sources.iter().filter(|source| source.crate_name() != "xtask") {
        // A comment may name a path of its own crate as its manifest would.
        let crate_folder = format!("crates/{}/", source.crate_name());
        let exists_nearby = |path: &str| exists(path) || exists(&format!("{crate_folder}{path}"));
        findings.extend(check_paths(&source.path, &comments(source), exists_nearby));
        findings.extend(check_records(&source.path, &comments(source), &records));
        if let Some(decisions) = &decisions {
            findings.extend(check_citations(&source.path, &comments(source), decisions));
        }
    }
    Ok(findings)
}

struct Document {
    path: String,
    text: String,
}

fn load_documents(root: &Path) -> Result<Vec<Document>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    super::collect_files(root, "md", &mut paths)?;
    let mut documents = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        documents.push(Document { path: relative, text });
    }
    Ok(documents)
}

/// `[text](target)` and `![text](target)`: the file exists, and so does the heading of a `#fragment`.
fn check_links(document: &Document, all: &[Document], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let prose = without_code(&document.text);
    for (offset, _) in prose.match_indices("](") {
        let Some(target) = prose[offset + 2..].split(')').next() else { continue };
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let place = format!("{}:{}", document.path, line_of(&prose, offset));
        let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { document.path.clone() } else { resolve(&document.path, file) };
        if !exists(&path) {
            findings.push(Finding::error(place, format!("the link leads to `{path}`, which does not exist")));
        } else if !fragment.is_empty()
            && let Some(linked) = all.iter().find(|other| other.path == path)
            && !headings(&linked.text).contains(fragment)
        {
            findings.push(Finding::error(place, format!("`{path}` has no heading `#{fragment}`")));
        }
    }
    findings
}

/// Paths named in backticks: `crates/x/…`, `docs/…`, `tests/…`, `fuzz/…` exist. A path with a placeholder is passed over.
fn check_paths(place: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (offset, _) in text.match_indices('`') {
        let rest = &text[offset + 1..];
        let named: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "/._-".contains(*c)).collect();
        let ends_there = rest[named.len()..].starts_with('`');
        let ours = ["crates/", "docs/", "tests/", "fuzz/"].iter().any(|top| named.starts_with(top));
        if ends_there && ours && !exists(&named) {
            let place = format!("{place}:{}", line_of(text, offset));
            findings.push(Finding::error(place, format!("names `{named}`, which does not exist")));
        }
    }
    findings
}

/// The number of a decision record's file: `docs/rfd/0002-zstore.md` is `0002`.
fn record_number(path: &str) -> Option<String> {
    let (number, _) = path.strip_prefix(RECORDS)?.split_once('-')?;
    Some(number.to_owned())
}

/// Records cited by number alone, as in "docs/rfd/0002".
fn check_records(place: &str, text: &str, records: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (offset, _) in text.match_indices(RECORDS) {
        let number: String = text[offset + RECORDS.len()..].chars().take_while(char::is_ascii_digit).collect();
        if !number.is_empty() && !records.contains(&number) {
            let place = format!("{place}:{}", line_of(text, offset));
            findings.push(Finding::error(place, format!("cites {RECORDS}{number}, which does not exist")));
        }
    }
    findings
}

fn check_citations(place: &str, comments: &str, decisions: &BTreeSet<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (offset, _) in comments.match_indices(CITATION) {
        let digits: String = comments[offset + CITATION.len()..].chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse::<u32>() else { continue };
        if !decisions.contains(&number) {
            let place = format!("{place}:{}", line_of(comments, offset));
            findings.push(Finding::error(place, format!("cites decision {number}, which {DECISIONS_FILE} does not have")));
        }
    }
    findings
}

/// The text of a file's comments and literals, on their own lines: what masking took away.
fn comments(source: &SourceFile) -> String {
    let mut text = String::with_capacity(source.text.len());
    for (original, masked) in source.text.lines().zip(source.masked.lines()) {
        let start = original.find("//").filter(|start| masked.get(*start..).is_some_and(|rest| rest.trim().is_empty()));
        text.push_str(start.map_or("", |start| &original[start..]));
        text.push('\n');
    }
    text
}

/// Numbers of the items that start a line with `N. `.
fn numbered_items(text: &str) -> BTreeSet<u32> {
    text.lines().filter_map(|line| line.split_once(". ").and_then(|(number, _)| number.parse().ok())).collect()
}

/// Text with fenced blocks and inline code blanked, so that code is not taken for links.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            for (index, part) in line.split('`').enumerate() {
                out.push_str(if index % 2 == 0 { part } else { "" });
            }
        }
        out.push('\n');
    }
    out
}

/// The fragments of a document's headings, as common renderers make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

/// A link target relative to the document that holds it, as a path from the repository root.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
