//! Every record of the crate `format` is pinned by golden bytes and has a fuzz target where it can be decoded.
//!
//! A format that no test pins changes by accident, and the accident is found by whoever has old disks.

use super::Finding;
use super::source::{SourceFile, find_word};

/// How a function that reads a record begins.
const DECODERS: [&str; 3] = ["pub fn decode", "pub fn open", "pub fn read"];

const FORMAT_ROOT: &str = "crates/format/src/lib.rs";

pub fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let Some(root) = sources.iter().find(|file| file.path == FORMAT_ROOT) else { return Vec::new() };
    public_modules(&root.product).iter().flat_map(|module| check_record(module, sources)).collect()
}

fn public_modules(product: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for offset in find_word(product, "mod") {
        let is_public = product[..offset].trim_end().ends_with("pub");
        let name: String =
            product[offset + 3..].trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if is_public {
            modules.push(name);
        }
    }
    modules
}

/// A module that decodes has golden bytes (a test function with `golden` in its name) and a fuzz target of its own name.
fn check_record(module: &str, sources: &[SourceFile]) -> Vec<Finding> {
    let file = format!("crates/format/src/{module}.rs");
    let folder = format!("crates/format/src/{module}/");
    let own = || sources.iter().filter(|source| source.path == file || source.path.starts_with(&folder));
    let mut findings = Vec::new();
    if !own().any(|source| DECODERS.iter().any(|decoder| source.product.contains(decoder))) {
        return findings;
    }
    if !own().any(|source| test_names(source).any(|name| name.contains("golden"))) {
        let message = "the record has no golden bytes: add a test with `golden` in its name that pins its encoding";
        findings.push(Finding::error(&file, message));
    }
    let target = format!("fuzz/fuzz_targets/{module}.rs");
    if !sources.iter().any(|source| source.path == target) {
        findings.push(Finding::error(&file, format!("the record's decoder has no fuzz target: add {target}")));
    }
    findings
}

fn test_names(source: &SourceFile) -> impl Iterator<Item = &str> {
    let declarations = source.masked.match_indices("fn ").map(|(offset, _)| &source.masked[offset + 3..]);
    declarations.filter_map(|rest| rest.split('(').next())
}

#[cfg(test)]
mod tests;
