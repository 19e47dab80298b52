use super::*;

#[test]
fn the_tests_are_found_among_what_cargo_says() {
    let messages = r#"{"reason":"compiler-artifact","target":{"name":"trilith","kind":["bin"]},"executable":"/t/debug/trilith"}
{"reason":"compiler-artifact","target":{"name":"program","kind":["lib"]},"executable":null}
no JSON
{"reason":"compiler-artifact","target":{"name":"program","kind":["test"]},"executable":"/t/debug/deps/program-1"}
{"reason":"build-finished","success":true}"#;
    assert_eq!(executable(messages), Some(PathBuf::from("/t/debug/deps/program-1")));
    assert_eq!(executable("{\"reason\":\"build-finished\",\"success\":false}"), None);
}

#[test]
fn nothing_is_built_by_the_run_itself() {
    let step = step(Path::new("/r"), Path::new("/r/target/debug/deps/program-1"));
    let given = |word: &str| step.arguments.windows(2).find(|pair| pair[0] == word).map(|pair| pair[1].clone());
    assert_eq!(given("--program").as_deref(), Some("/r/target/debug/trilith"));
    assert_eq!(given("--histories").as_deref(), Some("/r/target/debug/deps/program-1"));
    assert!(step.arguments.contains(&"--smoke".to_owned()), "{:?}", step.arguments);
}
