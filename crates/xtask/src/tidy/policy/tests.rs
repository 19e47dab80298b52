use super::*;

fn policy() -> Policy {
    let text = "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]\n\
                [bans]\ndeny = [{ crate = \"bincode\", reason = \"unmaintained\" }]\n";
    toml::from_str(text).expect("the policy parses")
}

fn package(name: &str, licence: &str) -> ThirdParty {
    ThirdParty { name: name.to_owned(), version: "1.0.0".to_owned(), licence: licence.to_owned(), from_registry: true }
}

#[test]
fn expressions_are_met_by_allowed_licences_alone() {
    let policy = policy();
    for (licence, findings) in [
        ("MIT", 0),
        ("MIT OR GPL-3.0", 0),
        ("GPL-3.0/Apache-2.0", 0),
        ("(MIT OR GPL-3.0) AND Apache-2.0", 0),
        ("Apache-2.0 WITH LLVM-exception", 0),
        ("MIT AND GPL-3.0", 1),
        ("GPL-3.0", 1),
        ("(MIT", 1),
        ("", 1),
    ] {
        assert_eq!(check_package(&package("x", licence), &policy).len(), findings, "{licence}");
    }
}

#[test]
fn banned_and_unreleased_crates_are_named() {
    let found = check_package(&package("bincode", "MIT"), &policy());
    assert_eq!(found[0].message, "is banned: unmaintained");
    let mut unreleased = package("x", "MIT");
    unreleased.from_registry = false;
    assert_eq!(check_package(&unreleased, &policy()).len(), 1);
}

#[test]
fn dependencies_are_declared_in_the_root_manifest() {
    let found = |text: &str| check_manifest("crates/x/Cargo.toml", text, false).expect("the manifest parses").len();
    assert_eq!(found("[dependencies]\nbytes.workspace = true\nserde = { workspace = true }\n"), 0);
    assert_eq!(found("[dependencies]\nbytes = \"1\"\n"), 1);
    assert_eq!(found("[dependencies]\ntokio = { workspace = true, features = [\"fs\"] }\n"), 1);
    assert_eq!(found("[dev-dependencies]\ntokio = { workspace = true, features = [\"test-util\"] }\n"), 0);
}

#[test]
fn a_check_may_ask_for_features_and_not_for_versions() {
    let found = |text: &str| check_manifest("fuzz/Cargo.toml", text, true).expect("the manifest parses").len();
    assert_eq!(found("[dependencies]\ntokio = { workspace = true, features = [\"test-util\"] }\n"), 0);
    assert_eq!(found("[dependencies]\nbytes = \"1\"\n"), 1);
}

#[test]
fn fuzz_targets_are_built_by_who_asks() {
    let found = |text: &str| check_manifest("fuzz/Cargo.toml", text, true).expect("the manifest parses").len();
    assert_eq!(found("[[bin]]\nname = \"a\"\nrequired-features = [\"fuzzing\"]\n"), 0);
    assert_eq!(found("[[bin]]\nname = \"a\"\n[[bin]]\nname = \"b\"\nrequired-features = [\"other\"]\n"), 2);
}
