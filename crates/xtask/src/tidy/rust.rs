//! Rules for Rust files: size, a doc comment at each crate's root, no `unsafe` outside `disk` and one file of `fuse`, no glob imports,
//! no stubs, no `unwrap` in product code.

use super::Finding;
use super::source::{SourceFile, find_word, line_of};
use crate::workspace::{FUZZ_CRATE, Workspace};

/// A file longer than this is refused, tests or not.
const FILE_LINES_MAX: usize = 1_000;
/// A file with more product code than this is worth splitting.
const PRODUCT_LINES_ADVISED: usize = 500;
/// The crate that may hold `unsafe`: it speaks to the kernel's rings and aligned memory.
const UNSAFE_CRATE: &str = "disk";

/// The one other file that may: an ioctl of `/dev/fuse` that no library offers as a safe function.
const UNSAFE_FILE: &str = "crates/fuse/src/clone_ioctl.rs";
/// The crate of that file. Its root denies unsafe code, so that the file can allow it.
const DENYING_CRATE: &str = "fuse";

const FORBID: &str = "#![forbid(unsafe_code)]";
const DENY: &str = "#![deny(unsafe_code)]";

pub fn check(workspace: &Workspace, sources: &[SourceFile]) -> Vec<Finding> {
    let mut findings = missing_forbid(workspace, sources);
    for file in sources {
        findings.extend(check_size(file));
        findings.extend(check_root_doc(file));
        findings.extend(check_unsafe(file));
        findings.extend(check_globs(file));
        findings.extend(check_calls(file));
    }
    findings
}

/// Crate roots that do not forbid unsafe code. `disk` is exempt and `fuse` denies it; the fuzz targets' macro needs unsafe code.
pub fn missing_forbid(workspace: &Workspace, sources: &[SourceFile]) -> Vec<Finding> {
    let exempt = |file: &SourceFile| [UNSAFE_CRATE, FUZZ_CRATE].contains(&file.crate_name());
    let roots = sources.iter().filter(|file| file.is_crate_root() && !exempt(file));
    let mut findings: Vec<Finding> = roots
        .map(|file| (file, if file.crate_name() == DENYING_CRATE { DENY } else { FORBID }))
        .filter(|(file, attribute)| !file.masked.contains(attribute))
        .map(|(file, attribute)| {
            Finding::error(
                &file.path,
                format!("the crate root lacks `{attribute}`; only `{UNSAFE_CRATE}` may hold unsafe code"),
            )
        })
        .collect();
    for member in workspace.members.iter().filter(|member| member.name != FUZZ_CRATE) {
        let has_root = sources.iter().any(|file| file.is_crate_root() && file.crate_name() == member.name);
        if !has_root {
            findings
                .push(Finding::error(format!("crates/{}", member.name), "the crate has neither src/lib.rs nor src/main.rs"));
        }
    }
    findings
}

fn check_size(file: &SourceFile) -> Option<Finding> {
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        return Some(Finding::error(
            &file.path,
            format!("has {lines} lines; the limit is {FILE_LINES_MAX}: split it by phase or by type"),
        ));
    }
    let product = file.product_lines();
    (product > PRODUCT_LINES_ADVISED).then(|| {
        Finding::warning(&file.path, format!("has {product} lines without tests; above {PRODUCT_LINES_ADVISED} a split is due"))
    })
}

fn check_root_doc(file: &SourceFile) -> Option<Finding> {
    let missing = file.is_crate_root() && !file.text.trim_start().starts_with("//!");
    missing
        .then(|| Finding::error(&file.path, "a crate root opens with `//!`: what the crate is for and what always holds in it"))
}

fn check_unsafe(file: &SourceFile) -> Vec<Finding> {
    if file.crate_name() == UNSAFE_CRATE || file.path == UNSAFE_FILE {
        return Vec::new();
    }
    let found = find_word(&file.masked, "unsafe").into_iter();
    found.map(|offset| at(file, offset, format!("`unsafe` outside the crate `{UNSAFE_CRATE}`"))).collect()
}

fn check_globs(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for offset in find_word(&file.product, "use") {
        let statement = file.product[offset..].split(';').next().unwrap_or_default();
        if statement.contains("::*") {
            findings.push(at(file, offset, "glob import: name what is used, so that a reader can find it"));
        }
    }
    findings
}

fn check_calls(file: &SourceFile) -> Vec<Finding> {
    const STUBS: [&str; 2] = ["todo!", "unimplemented!"];
    let mut findings = Vec::new();
    for stub in STUBS {
        let word = stub.trim_end_matches('!');
        let found = find_word(&file.masked, word).into_iter().filter(|offset| file.masked[*offset..].starts_with(stub));
        findings.extend(found.map(|offset| at(file, offset, format!("`{stub}` is a stub: build it or leave it out"))));
    }
    for (offset, _) in file.product.match_indices(".unwrap()") {
        findings.push(at(
            file,
            offset,
            "`unwrap` outside tests: return an error, or `expect` with the reason why it cannot fail",
        ));
    }
    findings
}

fn at(file: &SourceFile, offset: usize, message: impl Into<String>) -> Finding {
    Finding::error(format!("{}:{}", file.path, line_of(&file.masked, offset)), message)
}

#[cfg(test)]
mod tests;
