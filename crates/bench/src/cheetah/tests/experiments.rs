//! Short rounds of the experiments that start no other process, and what their tables must say whatever the machine does.

use crate::cheetah::{CheetahArgs, run};
use clap::Parser;
use std::collections::BTreeMap;
use tempfile::TempDir;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CheetahArgs,
}

/// Runs some experiments; the folder with what they leave.
fn quick(only: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path of letters");
    let work = format!("{path}/work");
    let words = ["cheetah", "--quick", "--only", only, "--out", path, "--work", &work];
    run(&Line::try_parse_from(words).expect("options").args).expect("they run");
    assert_eq!(std::fs::read_dir(&work).expect("the place of work").count(), 0, "what was made is removed");
    folder
}

/// The rows of a table, without its head.
fn rows(folder: &TempDir, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("a table");
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

#[test]
fn a_put_of_the_engine_waits_for_one_write_and_ordered_ones_for_all_before() {
    let folder = quick("steps,settings");
    let mut steps: BTreeMap<(String, String, String), (f64, f64)> = BTreeMap::new();
    for row in rows(&folder, "fig6.csv") {
        steps.insert((row[0].clone(), row[1].clone(), row[2].clone()), (number(&row[3]), number(&row[4])));
    }
    for workers in ["1", "20"] {
        let of = |store: &str, step: &str| steps[&(workers.to_owned(), store.to_owned(), step.to_owned())];
        let ((record, recorded), (bytes, written)) = (of("volume engine", "METAX"), of("volume engine", "bytes"));
        // Beside other puts a record waits for the frame before it.
        assert!(workers != "1" || (record < written && bytes < recorded), "neither waits for the other: {steps:?}");
        let ordered = [
            ("volume engine OW", "bytes", "METAX"),
            ("Haystack", "the proxy's log", "directory"),
            ("Haystack", "directory", "needle"),
        ];
        for (store, first, second) in ordered {
            assert!(of(store, first).1 <= of(store, second).0, "{workers} {store}: {second} waits for {first}: {steps:?}");
        }
    }
    let dumps: BTreeMap<(String, String), f64> =
        rows(&folder, "fig11.csv").into_iter().map(|row| ((row[1].clone(), row[0].clone()), number(&row[7]))).collect();
    let of = |setting: &str| dumps[&("500".to_owned(), setting.to_owned())];
    assert!(of("a group's log: a quarter") > of("as on a server"), "shorter logs have more dumps: {dumps:?}");
}

#[test]
fn each_server_has_a_record_of_each_put() {
    let folder = quick("servers");
    let records: Vec<f64> = rows(&folder, "fig12.csv").iter().map(|row| number(&row[4])).collect();
    assert!(records.len() == 3 && records.iter().all(|count| (0.99..1.2).contains(count)), "{records:?}");
}

#[test]
fn nothing_moves_to_a_node_that_comes_and_all_copies_are_made_when_one_goes() {
    let folder = quick("expansion");
    let found: BTreeMap<String, f64> =
        rows(&folder, "fig14.csv").into_iter().map(|row| (row[0].clone(), number(&row[1]))).collect();
    assert_eq!(found["engine: bytes of blocks moved in six seconds of rest"], 0.0, "{found:?}");
    assert_eq!(found["engine: bytes of blocks on the new node at the end"], 0.0, "{found:?}");
    assert!(found["computed NoVG by object"] > 0.0, "{found:?}");
    let copied: f64 = rows(&folder, "disk-loss.csv").iter().map(|row| number(&row[1])).sum();
    assert!(copied > 0.0, "blocks were copied");
}
