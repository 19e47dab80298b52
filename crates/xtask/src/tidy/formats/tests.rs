use super::*;
use crate::tidy::source;

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let sources = source::load(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect());
    check(&sources).iter().map(Finding::to_string).collect()
}

const ROOT: (&str, &str) = (FORMAT_ROOT, "//! Doc.\npub mod frame;\nmod helper;\n");

const RECORD: (&str, &str) = ("crates/format/src/frame.rs", "pub fn decode(bytes: &[u8]) {}\n");
const GOLDEN: (&str, &str) = ("crates/format/src/frame/tests.rs", "#[test]\nfn golden_bytes_of_a_frame() {}\n");
const TARGET: (&str, &str) = ("fuzz/fuzz_targets/frame.rs", "fuzz_target!(|bytes| {});\n");

#[test]
fn a_decoder_without_golden_bytes_is_named() {
    assert_eq!(findings(&[ROOT, RECORD, GOLDEN, TARGET]), Vec::<String>::new());
    assert_eq!(findings(&[ROOT, RECORD, TARGET]).len(), 1);
    let comment = ("crates/format/src/frame/tests.rs", "// fn golden() would be good\n");
    assert_eq!(findings(&[ROOT, RECORD, comment, TARGET]).len(), 1);
}

#[test]
fn a_decoder_without_a_fuzz_target_is_named() {
    let found = findings(&[ROOT, RECORD, GOLDEN]);
    assert!(found.len() == 1 && found[0].contains("fuzz/fuzz_targets/frame.rs"), "{found:?}");
}

#[test]
fn private_modules_and_modules_without_decoders_are_passed_over() {
    let helper = ("crates/format/src/helper.rs", "pub fn decode() {}\n");
    let constants = ("crates/format/src/frame.rs", "pub const A: u8 = 1;\n");
    assert_eq!(findings(&[ROOT, helper, constants]), Vec::<String>::new());
}
