use std::path::PathBuf;

use super::*;

const TABLE: &str = "\
# Title

| layer | crate | job | uses from lower layers | uses beside it |
|---|---|---|---|---|
| 0 | `types` | words | | |
| 1 | `env` | clock | | |
| 1 | `disk` | raw I/O | `types` | `env` |
| 7 | `trilith` | the program | `disk` | `bench` |
| checks | `bench` | load | | |

After the table.
";

fn member(name: &str, uses: &[&str], tests_use: &[&str]) -> Member {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Member { name: name.to_owned(), folder: PathBuf::new(), uses: set(uses), tests_use: set(tests_use), tests: Vec::new() }
}

fn healthy() -> Vec<Member> {
    vec![
        member("types", &[], &[]),
        member("env", &[], &["types"]),
        member("disk", &["types", "env"], &["bench"]),
        member("trilith", &["disk", "bench"], &[]),
        member("bench", &[], &["disk"]),
    ]
}

fn messages(members: &[Member], table: &str) -> Vec<String> {
    let rows = parse(table).expect("the table parses");
    compare(&rows, members).into_iter().map(|finding| finding.message).collect()
}

#[test]
fn a_workspace_that_matches_its_table_has_no_findings() {
    assert_eq!(messages(&healthy(), TABLE), Vec::<String>::new());
}

#[test]
fn an_edge_that_the_table_lacks_is_named() {
    let mut members = healthy();
    members[1].uses.insert("types".to_owned());
    let found = messages(&members, TABLE);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("`env` uses `types`, an edge that the table"), "{}", found[0]);
}

#[test]
fn an_edge_that_no_manifest_has_is_named() {
    let mut members = healthy();
    members[2].uses.remove("env");
    let found = messages(&members, TABLE);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("says that `disk` uses `env`"), "{}", found[0]);
}

#[test]
fn a_crate_missing_on_either_side_is_named() {
    let mut members = healthy();
    members.push(member("extra", &[], &[]));
    members.remove(0);
    let found = messages(&members, TABLE);
    assert!(found.iter().any(|m| m.contains("does not list the crate `extra`")), "{found:?}");
    assert!(found.iter().any(|m| m.contains("`types`, which the workspace does not have")), "{found:?}");
}

#[test]
fn edges_in_the_table_may_not_go_upwards() {
    let table = TABLE.replace("| 0 | `types` | words | | |", "| 0 | `types` | words | `disk` | |");
    let mut members = healthy();
    members[0].uses.insert("disk".to_owned());
    let found = messages(&members, &table);
    assert!(found.iter().any(|m| m.contains("`types` → `disk`")), "{found:?}");
    let table = TABLE.replace("| 1 | `disk` | raw I/O | `types` | `env` |", "| 1 | `disk` | raw I/O | `types`, `env` | |");
    assert!(messages(&healthy(), &table).iter().any(|m| m.contains("`disk` → `env`")), "a sideways edge has its own column");
}

#[test]
fn only_programs_use_the_checks() {
    let table = TABLE.replace("| 1 | `env` | clock | | |", "| 1 | `env` | clock | | `bench` |");
    let mut members = healthy();
    members[1].uses.insert("bench".to_owned());
    assert!(messages(&members, &table).iter().any(|m| m.contains("`env` → `bench`")));
}

#[test]
fn tests_may_use_lower_layers_and_checks_but_not_higher_layers() {
    let mut members = healthy();
    members[1].tests_use.insert("trilith".to_owned());
    let found = messages(&members, TABLE);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("the tests of `env` use `trilith`"), "{}", found[0]);
}

#[test]
fn a_broken_table_is_an_error_with_its_line() {
    assert!(parse("no table here").is_err());
    let wrong_layer = TABLE.replace("| 1 | `env`", "| one | `env`");
    let finding = parse(&wrong_layer).expect_err("`one` is no layer");
    assert_eq!(finding.place, "ARCHITECTURE.md:6");
    let twice = TABLE.replace("| 1 | `env` | clock | | |", "| 1 | `env` | clock | | |\n| 1 | `env` | clock | | |");
    assert!(messages(&healthy(), &twice).iter().any(|m| m.contains("`env` twice")));
}
