//! Every record of the crate `format` is pinned by golden bytes and has a fuzz target where it can be decoded.
//!
//! A format that no test pins changes by accident, and the accident is found by whoever has old disks.

use super::Finding;
use super::source::{SourceFile, find_word};

const FORMAT_ROOT: &str = "crates/format/src/lib.rs";

pub fn check(sources: &[SourceFile]) -> Vec<Finding> {
    let Some(root) = sources.iter().find(|file| file.path == FORMAT_ROOT) else { return Vec::new() };
    let modules = public_modules(&root.product);
    modules.iter().filter_map(|module| check_golden(module, sources)).collect()
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

/// A module has golden bytes if a test function of it has `golden` in its name.
fn check_golden(module: &str, sources: &[SourceFile]) -> Option<Finding> {
    let file = format!("crates/format/src/{module}.rs");
    let folder = format!("crates/format/src/{module}/");
    let own = || sources.iter().filter(|source| source.path == file || source.path.starts_with(&folder));
    let has_decoder = own().any(|source| source.product.contains("fn decode"));
    let has_golden = own().any(|source| test_names(source).any(|name| name.contains("golden")));
    (has_decoder && !has_golden).then(|| {
        Finding::error(file, "the record has no golden bytes: add a test with `golden` in its name that pins its encoding")
    })
}

fn test_names(source: &SourceFile) -> impl Iterator<Item = &str> {
    let declarations = source.masked.match_indices("fn ").map(|(offset, _)| &source.masked[offset + 3..]);
    declarations.filter_map(|rest| rest.split('(').next())
}

#[cfg(test)]
mod tests;
