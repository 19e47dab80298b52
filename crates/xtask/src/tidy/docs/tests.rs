use super::*;
use crate::tidy::source;

fn document(path: &str, text: &str) -> Document {
    Document { path: path.to_owned(), text: text.to_owned() }
}

fn exists(path: &str) -> bool {
    ["README.md", "docs/a.md", "crates/disk", "docs/b/c.md"].contains(&path)
}

fn link_findings(path: &str, text: &str) -> Vec<String> {
    let all = [document("docs/a.md", "# Big Title: one\n\n## Small `code` part\n")];
    check_links(&document(path, text), &all, exists).iter().map(Finding::to_string).collect()
}

#[test]
fn links_are_resolved_from_the_document_that_holds_them() {
    assert_eq!(link_findings("README.md", "[a](docs/a.md) [x](https://example.com/none)"), Vec::<String>::new());
    assert_eq!(link_findings("docs/b/c.md", "[a](../a.md) [self](./c.md)"), Vec::<String>::new());
    let found = link_findings("docs/b/c.md", "text\n[a](a.md)");
    assert_eq!(found, ["error: docs/b/c.md:2: the link leads to `docs/b/a.md`, which does not exist"]);
}

#[test]
fn fragments_must_be_headings() {
    assert_eq!(link_findings("README.md", "[a](docs/a.md#big-title-one) [b](docs/a.md#small-code-part)"), Vec::<String>::new());
    assert_eq!(link_findings("README.md", "[a](docs/a.md#none)"), ["error: README.md:1: `docs/a.md` has no heading `#none`"]);
}

#[test]
fn code_holds_no_links() {
    assert_eq!(link_findings("README.md", "`a[0](none)`\n```\n[a](none)\n```\n"), Vec::<String>::new());
}

#[test]
fn named_paths_must_exist() {
    let named = |text: &str| check_paths("README.md", text, exists).len();
    assert_eq!(named("see `crates/disk` and `docs/a.md` and `docs/<name>.md`"), 0);
    assert_eq!(named("see `crates/none`"), 1);
    assert_eq!(named("`cargo test` runs `tests/none.py`"), 1);
}

#[test]
fn records_must_exist() {
    let records = ["docs/rfd/0002-zstore.md", "docs/a.md"].into_iter().filter_map(record_number).collect();
    assert_eq!(check_records("x", "see docs/rfd/0002 and docs/rfd/NNNN and docs/rfd/", &records), Vec::new());
    let found = check_records("x", "see\ndocs/rfd/0009-none.md", &records);
    assert_eq!(
        found.iter().map(Finding::to_string).collect::<Vec<_>>(),
        ["error: x:2: cites docs/rfd/0009, which does not exist"]
    );
}

#[test]
fn citations_must_name_a_decision_that_exists() {
    let file = source::load(vec![(
        "crates/x/src/lib.rs".to_owned(),
        "//! Root (decision 2).\nlet decision = 9; // decision 7 says so\n/// decision makers\n".to_owned(),
    )])
    .remove(0);
    let decisions = numbered_items("intro\n1. one\n2. two\n   3.5 is no item\n");
    let found = check_citations(&file.path, &comments(&file), &decisions);
    assert_eq!(
        found.iter().map(Finding::to_string).collect::<Vec<_>>(),
        ["error: crates/x/src/lib.rs:2: cites decision 7, which docs/rfd/0002-zstore.md does not have"]
    );
}
