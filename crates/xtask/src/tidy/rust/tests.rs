use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;
use crate::tidy::source;
use crate::workspace::Member;

const GOOD_ROOT: &str = "//! What it is for.\n#![forbid(unsafe_code)]\n\npub fn f() {}\n";

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let sources = source::load(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect());
    let member = Member {
        name: "x".to_owned(),
        folder: PathBuf::new(),
        uses: BTreeSet::new(),
        tests_use: BTreeSet::new(),
        tests: Vec::new(),
    };
    let workspace = Workspace { root: PathBuf::new(), members: vec![member], third_party: Vec::new() };
    check(&workspace, &sources).iter().map(Finding::to_string).collect()
}

fn with_root(path: &str, text: &str) -> Vec<String> {
    findings(&[("crates/x/src/lib.rs", GOOD_ROOT), (path, text)])
}

#[test]
fn a_good_crate_has_no_findings() {
    assert_eq!(findings(&[("crates/x/src/lib.rs", GOOD_ROOT)]), Vec::<String>::new());
}

#[test]
fn a_root_without_forbid_or_doc_is_refused() {
    let found = findings(&[("crates/x/src/lib.rs", "pub fn f() {}\n")]);
    assert_eq!(found.len(), 2, "{found:?}");
    let found = findings(&[("crates/x/src/lib.rs", "//! Doc.\n// #![forbid(unsafe_code)]\n")]);
    assert_eq!(found.len(), 1, "a comment does not forbid: {found:?}");
    assert_eq!(findings(&[]).len(), 1, "a member without a root");
}

#[test]
fn unsafe_is_allowed_in_disk_only() {
    let text = "fn f() { unsafe { g() } }";
    assert_eq!(with_root("crates/x/src/a.rs", text), ["error: crates/x/src/a.rs:1: `unsafe` outside the crate `disk`"]);
    assert_eq!(with_root("crates/disk/src/a.rs", text), Vec::<String>::new());
    assert_eq!(with_root("crates/x/src/tests.rs", text).len(), 1, "tests neither");
    assert_eq!(with_root("crates/x/src/a.rs", "// unsafe\nconst A: &str = \"unsafe\";"), Vec::<String>::new());
}

#[test]
fn one_file_of_fuse_may_hold_unsafe_and_its_root_denies_it() {
    let fuse = |root: &str, path: &str| {
        let sources =
            [("crates/x/src/lib.rs", GOOD_ROOT), ("crates/fuse/src/lib.rs", root), (path, "fn f() { unsafe { g() } }")];
        findings(&sources).len()
    };
    let denying = "//! Doc.\n#![deny(unsafe_code)]\n";
    assert_eq!(fuse(denying, "crates/fuse/src/clone_ioctl.rs"), 0);
    assert_eq!(fuse(denying, "crates/fuse/src/device.rs"), 1, "no other file");
    assert_eq!(fuse("//! Doc.\n", "crates/fuse/src/clone_ioctl.rs"), 1, "the root says nothing");
    assert_eq!(findings(&[("crates/x/src/lib.rs", denying)]).len(), 1, "other crates forbid it");
}

#[test]
fn globs_are_refused_outside_tests() {
    assert_eq!(with_root("crates/x/src/a.rs", "use std::io::*;").len(), 1);
    assert_eq!(with_root("crates/x/src/a.rs", "use std::{\n    io::*,\n    fmt,\n};").len(), 1);
    assert_eq!(
        with_root("crates/x/src/a.rs", "use std::io;\nfn f() { 2 * 3; }\n#[cfg(test)]\nmod tests { use super::*; }"),
        Vec::<String>::new()
    );
    assert_eq!(with_root("crates/x/src/a/tests.rs", "use super::*;"), Vec::<String>::new());
}

#[test]
fn stubs_and_unwraps_are_refused() {
    assert_eq!(with_root("crates/x/src/a.rs", "fn f() { todo!() }").len(), 1);
    assert_eq!(with_root("crates/x/src/a.rs", "fn f() { unimplemented!(\"later\") }").len(), 1);
    assert_eq!(with_root("crates/x/src/a.rs", "fn todo() {}"), Vec::<String>::new());
    assert_eq!(with_root("crates/x/src/a.rs", "fn f() { g().unwrap(); }").len(), 1);
    assert_eq!(with_root("crates/x/src/a.rs", "fn f() { g().unwrap_or(1); }"), Vec::<String>::new());
    assert_eq!(with_root("crates/x/tests/a.rs", "fn f() { g().unwrap(); }"), Vec::<String>::new());
}

#[test]
fn size_warns_then_fails() {
    let long = "fn f() {}\n".repeat(PRODUCT_LINES_ADVISED + 1);
    let found = with_root("crates/x/src/a.rs", &long);
    assert!(found.len() == 1 && found[0].starts_with("warning"), "{found:?}");
    assert_eq!(with_root("crates/x/src/tests.rs", &long), Vec::<String>::new());
    let longer = "fn f() {}\n".repeat(FILE_LINES_MAX + 1);
    let found = with_root("crates/x/src/tests.rs", &longer);
    assert!(found.len() == 1 && found[0].starts_with("error"), "{found:?}");
}
