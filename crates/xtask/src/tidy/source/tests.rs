use super::*;

fn one(path: &str, text: &str) -> SourceFile {
    load(vec![(path.to_owned(), text.to_owned())]).remove(0)
}

#[test]
fn comments_and_literals_are_blanked_and_lines_kept() {
    let text = "let a = \"unsafe\"; // unsafe\n/* unsafe /* nested unsafe */ unsafe */ let b = 'u';\nlet c = r#\"unsafe \" unsafe\"#;\nlet d = b\"unsafe\\\" unsafe\";\n";
    let masked = mask(text);
    assert!(find_word(&masked, "unsafe").is_empty(), "{masked}");
    assert_eq!(masked.lines().count(), text.lines().count());
    for name in ["a", "b", "c", "d"] {
        assert_eq!(find_word(&masked, name).len(), 1, "`{name}` must stay: {masked}");
    }
}

#[test]
fn code_around_lifetimes_and_raw_identifiers_stays() {
    let masked = mask("fn f<'a>(r#type: &'a str) -> char { unsafe_name('\\'', '\"', 'é') } unsafe {}");
    assert_eq!(find_word(&masked, "unsafe").len(), 1);
    assert_eq!(find_word(&masked, "unsafe_name").len(), 1);
    assert!(masked.contains("r#type: &'a str"));
}

#[test]
fn words_that_end_like_a_literal_prefix_are_not_prefixes() {
    let masked = mask("for x in web\"text\"; super::b(1)");
    assert!(masked.contains("super::b(1)"));
    assert!(!masked.contains("text"));
}

#[test]
fn product_code_excludes_test_items() {
    let file = one(
        "crates/x/src/a.rs",
        "fn real() {}\n#[cfg(test)]\nfn helper() { inner(); }\nfn also_real() {}\n#[cfg(test)]\nmod t { fn x() {} }\n",
    );
    for (name, expected) in [("real", 1), ("helper", 0), ("inner", 0), ("also_real", 1), ("x", 0)] {
        assert_eq!(find_word(&file.product, name).len(), expected, "{name}");
    }
    assert!(!file.is_test_only());
    assert_eq!(file.product_lines(), 2);
}

#[test]
fn files_declared_as_test_modules_are_tests() {
    let files = load(vec![
        ("crates/x/src/lib.rs".to_owned(), "#[cfg(test)]\nmod harness;\nmod real;\n".to_owned()),
        ("crates/x/src/harness.rs".to_owned(), "fn h() {}".to_owned()),
        ("crates/x/src/harness/more.rs".to_owned(), "fn m() {}".to_owned()),
        ("crates/x/src/real.rs".to_owned(), "#[cfg(test)]\nmod tests;\nfn r() {}".to_owned()),
        ("crates/x/src/real/tests.rs".to_owned(), "fn t() {}".to_owned()),
        ("crates/x/tests/suite.rs".to_owned(), "fn s() {}".to_owned()),
    ]);
    let test_only: Vec<&str> = files.iter().filter(|f| f.is_test_only()).map(|f| f.path.as_str()).collect();
    assert_eq!(
        test_only,
        ["crates/x/src/harness.rs", "crates/x/src/harness/more.rs", "crates/x/src/real/tests.rs", "crates/x/tests/suite.rs"]
    );
}

#[test]
fn crate_names_and_roots_come_from_the_path() {
    assert_eq!(one("crates/disk/src/ring.rs", "").crate_name(), "disk");
    assert_eq!(one("fuzz/fuzz_targets/a.rs", "").crate_name(), "fuzz");
    assert!(one("crates/disk/src/lib.rs", "").is_crate_root());
    assert!(one("crates/trilith/src/main.rs", "").is_crate_root());
    assert!(!one("crates/disk/src/lib/lib.rs", "").is_crate_root());
    assert!(!one("crates/disk/src/ring.rs", "").is_crate_root());
}

#[test]
fn lines_count_from_one() {
    assert_eq!(line_of("a\nb\nc", 0), 1);
    assert_eq!(line_of("a\nb\nc", 4), 3);
}
