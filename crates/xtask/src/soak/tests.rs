use std::collections::BTreeSet;

use clap::Parser;

use super::*;
use crate::workspace::Workspace;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
    Ok(Line::try_parse_from([&["soak"], words].concat())?.arguments)
}

fn names(words: &[&str]) -> Result<Vec<&'static str>> {
    Ok(chosen(&parse(words)?)?.iter().map(|suite| suite.name).collect())
}

#[test]
fn a_suite_is_chosen_by_its_name_and_all_without_one() {
    assert_eq!(names(&["--suite", "program"]).unwrap(), ["program"]);
    assert_eq!(names(&[]).unwrap().len(), SUITES.len());
    for wrong in ["progra", "trilith", ""] {
        let error = names(&["--suite", wrong]).expect_err(wrong).to_string();
        assert!(error.contains("cargo xtask soak --list"), "{wrong}: {error}");
    }
    let error = run(&parse(&["--suite", "progra"]).unwrap()).expect_err("nothing is run").to_string();
    assert!(error.contains("no such suite"), "{error}");
}

#[test]
fn suites_have_names_of_their_own_and_packages_that_exist() {
    let names: BTreeSet<&str> = SUITES.iter().map(|suite| suite.name).collect();
    assert_eq!(names.len(), SUITES.len());
    let workspace = Workspace::load().unwrap();
    for suite in SUITES {
        assert!(workspace.members.iter().any(|member| member.name == suite.package), "{}", suite.package);
    }
}

#[test]
fn options_reach_both_steps_of_a_suite() {
    let program = &chosen(&parse(&["--suite", "program"]).unwrap()).unwrap()[0];
    for (words, factor, limit_s) in [(&[][..], "20", 3_600), (&["--factor", "3", "--minutes", "7"], "3", 420)] {
        let [counts, ignored] = steps(program, &parse(words).unwrap());
        for step in [&counts, &ignored] {
            assert_eq!(step.environment, [("TRILITH_SOAK", factor.to_owned())]);
            assert_eq!((step.name, step.limit), ("program", Duration::from_secs(limit_s)));
            assert!(step.arguments.windows(2).any(|pair| pair == ["--package", "trilith"]), "{:?}", step.arguments);
            assert!(step.arguments.iter().any(|word| word == "--release"), "{:?}", step.arguments);
        }
        let only_ignored = ["--", "--ignored", "soak"];
        assert!(ignored.arguments.ends_with(&only_ignored.map(str::to_owned)), "{:?}", ignored.arguments);
        assert!(!counts.arguments.iter().any(|word| word == "--ignored"), "{:?}", counts.arguments);
    }
}

#[test]
fn a_run_that_would_show_nothing_is_refused() {
    for words in [["--factor", "0"], ["--minutes", "0"], ["--minutes", "-1"], ["--minutes", "soon"], ["--suites", "sim"]] {
        assert!(parse(&words).is_err(), "{words:?}");
    }
}
