//! The crate graph: the table in ARCHITECTURE.md against the manifests.
//!
//! ```text
//! | layer | crate | job | uses from lower layers | uses beside it |
//! | 2     | `target` | … | `types`, `net`      | `device`       |
//! ```
//!
//! The table is exact in both directions: an edge that it lacks and an edge that no manifest has are both errors, so a new
//! edge is a deliberate change of the table. Edges of tests go to lower layers, to listed edges, or to the checks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::Finding;
use crate::workspace::{Member, Workspace};

const TABLE_FILE: &str = "ARCHITECTURE.md";
const HEADER: [&str; 5] = ["layer", "crate", "job", "uses from lower layers", "uses beside it"];

/// Where a crate stands. `Checks` may use everything and only programs may use them, where the table says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Number(u8),
    Checks,
}

const PROGRAMS: Layer = Layer::Number(7);

#[derive(Debug, PartialEq, Eq)]
struct Row {
    layer: Layer,
    name: String,
    lower: BTreeSet<String>,
    beside: BTreeSet<String>,
}

pub fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let path = workspace.root.join(TABLE_FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(match parse(&text) {
        Ok(rows) => compare(&rows, &workspace.members),
        Err(finding) => vec![finding],
    })
}

fn parse(text: &str) -> Result<Vec<Row>, Finding> {
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| cells(line) != HEADER);
    if lines.next().is_none() {
        return Err(Finding::error(TABLE_FILE, format!("has no table with the columns {}", HEADER.join(" | "))));
    }
    let mut rows = Vec::new();
    for (index, line) in lines.skip(1).take_while(|(_, line)| line.trim_start().starts_with('|')) {
        let place = format!("{TABLE_FILE}:{}", index + 1);
        rows.push(parse_row(line).map_err(|message| Finding::error(place, message))?);
    }
    Ok(rows)
}

fn parse_row(line: &str) -> Result<Row, String> {
    let cells = cells(line);
    let [layer, name, job, lower, beside] = cells.as_slice() else {
        return Err(format!("a row of the crate table has {} cells, not {}", cells.len(), HEADER.len()));
    };
    let layer = match *layer {
        "checks" => Layer::Checks,
        number => Layer::Number(number.parse().map_err(|_| format!("`{number}` is neither a layer's number nor `checks`"))?),
    };
    let names = backticked(name);
    let [name] = names.as_slice() else {
        return Err(format!("the crate column must name one crate in backticks, not `{name}`"));
    };
    if job.is_empty() {
        return Err(format!("the crate `{name}` has no job"));
    }
    let set = |cell: &str| backticked(cell).into_iter().collect();
    Ok(Row { layer, name: name.clone(), lower: set(lower), beside: set(beside) })
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let Some(inner) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { return Vec::new() };
    inner.split('|').map(str::trim).collect()
}

fn backticked(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn compare(rows: &[Row], members: &[Member]) -> Vec<Finding> {
    let mut layers: BTreeMap<&str, Layer> = BTreeMap::new();
    let mut findings = Vec::new();
    for row in rows {
        if layers.insert(&row.name, row.layer).is_some() {
            findings.push(Finding::error(TABLE_FILE, format!("lists the crate `{}` twice", row.name)));
        }
    }
    for row in rows {
        findings.extend(check_row(row, &layers));
        if !members.iter().any(|member| member.name == row.name) {
            findings
                .push(Finding::error(TABLE_FILE, format!("lists the crate `{}`, which the workspace does not have", row.name)));
        }
    }
    for member in members {
        match rows.iter().find(|row| row.name == member.name) {
            Some(row) => findings.extend(check_member(member, row, &layers)),
            None => findings.push(Finding::error(
                TABLE_FILE,
                format!("does not list the crate `{}`: add a row that says its layer, its job and its edges", member.name),
            )),
        }
    }
    findings
}

/// The table against itself: edges go down, or sideways where they are said to.
fn check_row(row: &Row, layers: &BTreeMap<&str, Layer>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for edge in row.lower.iter().chain(&row.beside) {
        let Some(layer) = layers.get(edge.as_str()) else {
            let message = format!("the row of `{}` names `{edge}`, which has no row of its own", row.name);
            findings.push(Finding::error(TABLE_FILE, message));
            continue;
        };
        let listed_as_lower = row.lower.contains(edge);
        let sideways = *layer == row.layer || (row.layer == PROGRAMS && *layer == Layer::Checks);
        let allowed = if listed_as_lower { *layer < row.layer } else { sideways };
        if !allowed {
            let column = if listed_as_lower { HEADER[3] } else { HEADER[4] };
            let message =
                format!("`{}` → `{edge}` does not belong into the column \"{column}\": dependencies go down", row.name);
            findings.push(Finding::error(TABLE_FILE, message));
        }
    }
    findings
}

/// A manifest against its row.
fn check_member(member: &Member, row: &Row, layers: &BTreeMap<&str, Layer>) -> Vec<Finding> {
    let listed: BTreeSet<String> = row.lower.union(&row.beside).cloned().collect();
    let manifest = member.manifest();
    let mut findings = Vec::new();
    for edge in member.uses.difference(&listed) {
        let message = format!(
            "`{}` uses `{edge}`, an edge that the table in {TABLE_FILE} does not have; remove it or add it to the table",
            member.name
        );
        findings.push(Finding::error(&manifest, message));
    }
    for edge in listed.difference(&member.uses) {
        let message = format!(
            "the table in {TABLE_FILE} says that `{}` uses `{edge}`, but its manifest does not; remove it from the table",
            member.name
        );
        findings.push(Finding::error(&manifest, message));
    }
    for edge in member.tests_use.difference(&listed) {
        let layer = layers.get(edge.as_str()).copied();
        let allowed = edge == &member.name || layer.is_some_and(|layer| layer < row.layer || layer == Layer::Checks);
        if !allowed {
            let message = format!(
                "the tests of `{}` use `{edge}`; tests may use lower layers, listed edges and the checks only",
                member.name
            );
            findings.push(Finding::error(&manifest, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
