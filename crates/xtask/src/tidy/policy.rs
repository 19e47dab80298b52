//! What may come from outside: licences, sources and banned crates, as `deny.toml` lists them.
//!
//! `deny.toml` is written for cargo-deny, which also asks the advisory database; this check needs neither the network nor
//! another tool, so that it runs in every `./test`.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use crate::workspace::{FUZZ_CRATE, FUZZ_FEATURE, ThirdParty, Workspace};

const POLICY_FILE: &str = "deny.toml";

#[derive(Deserialize)]
struct Policy {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

pub fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let path = workspace.root.join(POLICY_FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let policy: Policy = toml::from_str(&text).with_context(|| format!("{POLICY_FILE} is not understood"))?;
    let mut findings: Vec<Finding> = workspace.third_party.iter().flat_map(|package| check_package(package, &policy)).collect();
    for member in &workspace.members {
        let manifest = member.folder.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let is_check = member.name == FUZZ_CRATE;
        findings.extend(check_manifest(&member.manifest(), &text, is_check)?);
    }
    Ok(findings)
}

fn check_package(package: &ThirdParty, policy: &Policy) -> Vec<Finding> {
    let place = format!("{} {}", package.name, package.version);
    let mut findings = Vec::new();
    if !package.from_registry {
        findings.push(Finding::error(&place, "does not come from the crates registry: released crates only"));
    }
    let allowed: BTreeSet<&str> = policy.licenses.allow.iter().map(String::as_str).collect();
    if !licence_allowed(&package.licence, &allowed) {
        findings
            .push(Finding::error(&place, format!("has the licence `{}`, which {POLICY_FILE} does not allow", package.licence)));
    }
    if let Some(ban) = policy.bans.deny.iter().find(|ban| ban.name == package.name) {
        findings.push(Finding::error(&place, format!("is banned: {}", ban.reason)));
    }
    findings
}

/// Whether an SPDX expression can be met with allowed licences alone. `/` is the old form of OR; brackets group.
fn licence_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ").replace(" WITH ", "-WITH-");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = alternatives(&tokens, &mut at, allowed);
    met && at == tokens.len()
}

fn alternatives(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = conjunction(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= conjunction(tokens, at, allowed);
    }
    met
}

fn conjunction(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = term(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= term(tokens, at, allowed);
    }
    met
}

fn term(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token != "(" {
        return allowed.contains(token.replace("-WITH-", " WITH ").as_str());
    }
    let met = alternatives(tokens, at, allowed);
    if tokens.get(*at) != Some(&")") {
        return false;
    }
    *at += 1;
    met
}

/// Versions and features are declared once, in the root manifest, so that every crate builds the same artefacts. A crate that
/// is only a check may ask for features like any test.
fn check_manifest(place: &str, text: &str, is_check: bool) -> Result<Vec<Finding>> {
    let manifest: toml::Table = toml::from_str(text).with_context(|| format!("{place} is not understood"))?;
    let mut findings = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(toml::Value::Table(dependencies)) = manifest.get(section) else { continue };
        for (name, value) in dependencies {
            let declared_once = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
            if !declared_once {
                let message = format!("`{name}` is not `workspace = true`: declare it in the root Cargo.toml");
                findings.push(Finding::error(place, message));
            }
            // Features that only tests need (a paused clock) must not reach the released program.
            if value.get("features").is_some() && section != "dev-dependencies" && !is_check {
                let message =
                    format!("`{name}` sets features here: set them in the root Cargo.toml, or two crates build two artefacts");
                findings.push(Finding::error(place, message));
            }
        }
    }
    if is_check {
        findings.extend(unasked_targets(place, &manifest));
    }
    Ok(findings)
}

/// Fuzz targets that every build would build, and libFuzzer before them.
fn unasked_targets(place: &str, manifest: &toml::Table) -> Vec<Finding> {
    let targets = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    let waits = |target: &&toml::Value| {
        let features = target.get("required-features").and_then(toml::Value::as_array);
        features.is_some_and(|features| features.iter().any(|feature| feature.as_str() == Some(FUZZ_FEATURE)))
    };
    let name = |target: &toml::Value| target.get("name").and_then(toml::Value::as_str).unwrap_or("without a name").to_owned();
    let unasked = targets.filter(|target| !waits(target)).map(name);
    let message =
        |name| format!("the target `{name}` lacks `required-features = [\"{FUZZ_FEATURE}\"]`: every build would build it");
    unasked.map(|name| Finding::error(place, message(name))).collect()
}

#[cfg(test)]
mod tests;
