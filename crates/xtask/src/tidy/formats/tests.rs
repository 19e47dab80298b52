use super::*;
use crate::tidy::source;

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let sources = source::load(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect());
    check(&sources).iter().map(Finding::to_string).collect()
}

const ROOT: (&str, &str) = (FORMAT_ROOT, "//! Doc.\npub mod frame;\nmod helper;\n");

#[test]
fn a_decoder_without_golden_bytes_is_named() {
    let record = ("crates/format/src/frame.rs", "pub fn decode(bytes: &[u8]) {}\n");
    assert_eq!(findings(&[ROOT, record]).len(), 1);
    let tests = ("crates/format/src/frame/tests.rs", "#[test]\nfn golden_bytes_of_a_frame() {}\n");
    assert_eq!(findings(&[ROOT, record, tests]), Vec::<String>::new());
    let comment = ("crates/format/src/frame/tests.rs", "// fn golden() would be good\n");
    assert_eq!(findings(&[ROOT, record, comment]).len(), 1);
}

#[test]
fn private_modules_and_modules_without_decoders_are_passed_over() {
    let helper = ("crates/format/src/helper.rs", "pub fn decode() {}\n");
    let constants = ("crates/format/src/frame.rs", "pub const A: u8 = 1;\n");
    assert_eq!(findings(&[ROOT, helper, constants]), Vec::<String>::new());
}
