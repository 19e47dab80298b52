//! Options, phases and tables, on a local folder.

use super::folders::{Folder, System};
use super::outcome::{Figure, Outcome, Sample};
use super::workers::together;
use super::{CfsArgs, Experiment, large, metadata, run, small};
use clap::Parser;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    cfs: CfsArgs,
}

fn options(line: &[&str]) -> CfsArgs {
    Options::try_parse_from([&["bench"], line].concat()).expect("the options are valid").cfs
}

fn named(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// Several operations of each kind on a local folder, quickly.
fn quick(folder: &Path) -> (CfsArgs, Vec<System>) {
    let args = options(&["--quick", "--folder", &named("local", folder)]);
    let systems = System::all_of(&args.folders).unwrap();
    (args, systems)
}

#[test]
fn folders_of_one_name_are_clients_of_one_system() {
    let folder = tempfile::tempdir().unwrap();
    let folders: Vec<Folder> = ["a", "b", "a"].iter().map(|name| named(name, folder.path()).parse().unwrap()).collect();
    let systems = System::all_of(&folders).unwrap();
    let found: Vec<(&str, usize)> = systems.iter().map(|system| (system.name.as_str(), system.clients())).collect();
    assert_eq!(found, [("a", 2), ("b", 1)]);
    for wrong in ["/mnt", "=/mnt", "a,b=/mnt", "a=", "a|b=/mnt"] {
        assert!(wrong.parse::<Folder>().is_err(), "{wrong} is refused");
    }
    let absent = named("a", &folder.path().join("absent")).parse().unwrap();
    assert!(System::all_of(&[absent]).unwrap_err().to_string().contains("is no folder"));
}

#[test]
fn clients_that_show_different_trees_are_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folders = [one.path(), other.path()].map(|path| named("a", path).parse().unwrap());
    let systems = System::all_of(&folders).unwrap();
    let refused = systems[0].work(2).err().unwrap().to_string();
    assert!(refused.contains("show different trees"), "{refused}");
    assert!(!one.path().join("trilith-bench").exists(), "nothing is left behind");
}

#[test]
fn workers_run_at_once_and_the_first_failure_is_told() {
    let (count, barrier) = (AtomicUsize::new(0), std::sync::Barrier::new(4));
    together(4, |worker| {
        barrier.wait();
        count.fetch_add(1 << (8 * worker), Ordering::Relaxed);
        Ok(())
    })
    .unwrap();
    assert_eq!(count.into_inner(), 0x0101_0101, "each worker ran once");
    let failed = together(3, |worker| if worker == 0 { Ok(()) } else { anyhow::bail!("worker {worker}") });
    assert_eq!(failed.unwrap_err().to_string(), "worker 1");
}

#[test]
fn all_operations_are_done_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (args, systems) = quick(folder.path());
    let figures = metadata::by_processes(&args, &systems[0]).unwrap();
    let count = |place: &str, at: u64| figures.iter().filter(|figure| (figure.place, figure.at) == (place, at)).count();
    let counts = ["own directories", "one directory"].map(|place| [1, 4].map(|at| count(place, at)));
    assert_eq!(counts, [[9, 9], [9, 9]], "nine operations in each place with each number of processes");
    assert!(figures.iter().all(|figure| figure.per_second > 0.0), "{figures:?}");
    assert_eq!(small::run(&args, &systems[0]).unwrap().len(), 2 * 3);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn large_files_are_read_as_they_were_written() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let (args, systems) = quick(folder.path());
    let figures = large::run(&args, &systems[0]).unwrap();
    assert_eq!(figures.iter().map(|figure| figure.at).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 4, 4, 4, 4, 4]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn clients_work_on_one_tree() {
    let folder = tempfile::tempdir().unwrap();
    let pair = named("local", folder.path());
    let args = options(&["--quick", "--processes", "2", "--folder", &pair, "--folder", &pair]);
    let systems = System::all_of(&args.folders).unwrap();
    let figures = metadata::by_clients(&args, &systems[0]).unwrap();
    assert_eq!(figures.iter().map(|figure| figure.at).collect::<Vec<_>>(), [[1; 9], [2; 9]].concat());
}

#[test]
fn a_folder_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("trilith-bench");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(taken.join("precious"), "x").unwrap();
    let (args, systems) = quick(folder.path());
    let refused = metadata::by_processes(&args, &systems[0]).unwrap_err().to_string();
    assert!(refused.contains("an earlier run"), "{refused}");
    assert!(taken.join("precious").exists());
}

#[test]
fn tables_compare_the_first_system_with_the_others() {
    let sample = |round, system: &str, at, per_second| Sample {
        round,
        system: system.to_owned(),
        figure: Figure { place: "here", operation: "Do", at, per_second },
    };
    let samples = vec![
        sample(0, "one", 1, 10.0),
        sample(0, "one", 2, 5.0),
        sample(0, "two", 1, 5.0),
        sample(1, "one", 1, 30.0),
        sample(1, "two", 1, 10.0),
    ];
    let outcome = Outcome { experiment: Experiment::Metadata, systems: vec!["one", "two"], samples, rounds: 2 };
    let report = outcome.report(&options(&["--folder", "one=/", "--folder", "two=/"]));
    assert_eq!(
        report.summary.csv(),
        "where,operation,processes,one,two,one / two\n\
         here,Do,1,20 (10 to 30),8 (5 to 10),2.50 (2.00 to 3.00)\n\
         here,Do,2,5 (5 to 5),none,none\n"
    );
    assert_eq!(report.data.rows.len(), 5);
    let (end, plot) = &report.plots[0];
    assert_eq!((*end, report.plots.len(), plot.series.len()), ("Do", 1, 2));
    assert_eq!((&plot.series[0].points[..], &plot.series[1].points[..]), (&[(1.0, 20.0), (2.0, 5.0)][..], &[(1.0, 7.5)][..]));
}

#[test]
fn an_experiment_leaves_a_table_its_samples_and_plots() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out_path = out.path().display().to_string();
    run(&options(&["--quick", "--only", "metadata", "--out", &out_path, "--folder", &named("local", folder.path())])).unwrap();
    let text = std::fs::read_to_string(out.path().join("metadata.md")).unwrap();
    assert!(text.contains("**Provisional**") && text.contains("metadata-TreeRemoval.svg"), "{text}");
    assert_eq!(std::fs::read_to_string(out.path().join("metadata.csv")).unwrap().lines().count(), 1 + 2 * 2 * 9);
}
