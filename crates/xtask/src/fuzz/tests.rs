use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
    Ok(Line::try_parse_from([&["fuzz"], words].concat())?.arguments)
}

/// A folder below target/ that belongs to one test, empty.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = root().unwrap().join("target/xtask-tests").join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(folder.join("fuzz")).unwrap();
    folder
}

/// The words of the command for a target below `root`.
fn words(root: &Path, target: &str, options: &[&str]) -> Vec<String> {
    let command = command(root, target, &parse(options).unwrap());
    assert_eq!(command.get_current_dir(), Some(root));
    command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
}

#[test]
fn targets_are_those_of_the_manifest() {
    let root = folder("targets");
    let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"one\"\npath = \"x.rs\"\n[[bin]]\nname = \"two\"\n";
    std::fs::write(root.join("fuzz/Cargo.toml"), manifest).unwrap();
    assert_eq!(targets(&root).unwrap(), ["one", "two"]);
    std::fs::write(root.join("fuzz/Cargo.toml"), "[[bin]").unwrap();
    assert!(targets(&root).unwrap_err().to_string().contains("fuzz/Cargo.toml is not understood"));
    std::fs::remove_file(root.join("fuzz/Cargo.toml")).unwrap();
    assert!(targets(&root).unwrap_err().to_string().contains("cannot read"));
}

#[test]
fn a_target_is_chosen_by_its_name_and_all_without_one() {
    let targets = ["one", "two"].map(str::to_owned);
    assert_eq!(chosen(&targets, &parse(&["two"]).unwrap()).unwrap(), ["two"]);
    assert_eq!(chosen(&targets, &parse(&[]).unwrap()).unwrap(), ["one", "two"]);
    assert!(chosen(&targets, &parse(&["tw"]).unwrap()).is_err());
    // Known before any tool is looked for.
    let error = run(&parse(&["no-such-target"]).unwrap()).expect_err("nothing is run").to_string();
    assert!(error.contains("no such fuzz target; `cargo xtask fuzz --list`"), "{error}");
}

#[test]
fn options_reach_the_fuzzer() {
    let root = folder("options");
    let plain = words(&root, "log_walk", &[]);
    let (cargo_fuzz, fuzzer) = plain.split_at(plain.iter().position(|word| word == "--").unwrap());
    assert!(cargo_fuzz.windows(2).any(|pair| pair == ["--sanitizer", "none"]), "{cargo_fuzz:?}");
    assert!(cargo_fuzz.ends_with(&["log_walk", "fuzz/corpus/log_walk"].map(str::to_owned)), "{cargo_fuzz:?}");
    assert!(fuzzer.contains(&"-max_total_time=60".to_owned()), "{fuzzer:?}");
    assert!(!fuzzer.iter().any(|word| word.starts_with("-dict")), "{fuzzer:?}");
    let chosen = words(&root, "log_walk", &["log_walk", "--seconds", "5", "--address"]);
    assert!(chosen.windows(2).any(|pair| pair == ["--sanitizer", "address"]), "{chosen:?}");
    assert!(chosen.contains(&"-max_total_time=5".to_owned()), "{chosen:?}");
}

#[test]
fn seeds_and_a_dictionary_are_used_where_the_target_has_them() {
    let root = folder("seeds");
    std::fs::create_dir_all(root.join("fuzz/seeds/http")).unwrap();
    std::fs::create_dir_all(root.join("fuzz/dictionaries")).unwrap();
    std::fs::write(root.join("fuzz/dictionaries/http.dict"), "\"GET\"\n").unwrap();
    let used = words(&root, "http", &[]);
    let before_options = used.iter().position(|word| word == "--").unwrap();
    assert_eq!(used[before_options - 1], "fuzz/seeds/http");
    assert_eq!(used.last().unwrap(), "-dict=fuzz/dictionaries/http.dict");
    let other = words(&root, "policy", &[]);
    assert!(!other.iter().any(|word| word.contains("seeds") || word.contains("dict")), "{other:?}");
}

#[test]
fn a_run_without_end_is_refused() {
    for words in [&["--seconds", "0"][..], &["--seconds", "-1"], &["--seconds", "long"], &["one", "two"]] {
        assert!(parse(words).is_err(), "{words:?}");
    }
}
