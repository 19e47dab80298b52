//! The formulas against the figures that the paper prints, and the shapes of small simulations.

use super::formula::{Lengths, megabytes};
use super::heat::{self, Case, Values};
use super::layout::Layout;
use super::{Experiment, SmashArgs, index, migration, traffic};
use clap::Parser;
use std::path::{Path, PathBuf};
use topology::Level;

fn near(found: f64, expected: f64, within: f64) {
    assert!((found - expected).abs() <= within, "{found}, not {expected} within {within}");
}

/// Section 4.7: 649 MB where the paper prints 680, 1.49 GB, and with 4 M blocks a node all of what it prints.
#[test]
fn formulas_give_the_papers_example() {
    let (one, four) = (Lengths::EXAMPLE, Lengths { blocks: 4e6, ..Lengths::EXAMPLE });
    near(megabytes(one.lookup_unit(40e6)), 649.0, 1.0);
    near(megabytes(one.maintenance_unit(40e6)), 1491.0, 1.0);
    near(megabytes(one.monitor(10e3)), 97.7, 0.1);
    near(megabytes(four.lookup_unit(40e6)), 681.0, 1.0);
    near(megabytes(four.maintenance_unit(40e6)), 1523.0, 1.0);
    near(megabytes(four.monitor(10e3)), 390.6, 0.1);
    near(megabytes(one.directory(400e9)), 9e6, 1.0);
}

/// Figure 6: at least 60% below local indices, at least 70% below an index with ids, at most 1.8 GB for an active unit of 32 M.
#[test]
fn formulas_give_the_shape_of_figure_6() {
    let lengths = Lengths::EVALUATION;
    near(lengths.lookup_unit(1e6) / 1e6, 3.65 + 1.052 * 120.0, 0.1);
    assert!(lengths.lookup_unit(1e6) < 0.4 * lengths.local_index(1e6));
    assert!(lengths.lookup_unit(1e6) < 0.3 * lengths.simple_unit(1e6));
    assert!(megabytes(lengths.maintenance_unit_without_shard(32e6)) < 1800.0);
    assert!(megabytes(lengths.maintenance_unit(32e6)) > 1800.0);
}

#[test]
fn built_units_are_near_their_formulas() {
    let weighed = index::weigh(20_000, 120, 20, 7).unwrap();
    let lengths = Lengths::EVALUATION;
    let ratio = |bits: f64, formula: f64| bits * 20e3 / formula;
    near(ratio(weighed.lookup, lengths.lookup_unit(20e3)), 1.0, 0.03);
    near(ratio(weighed.simple, lengths.simple_unit(20e3)), 1.0, 0.03);
    near(ratio(weighed.local, lengths.local_index(20e3)), 1.0, 0.03);
    assert!(weighed.maintenance > weighed.lookup + 320.0);
}

#[test]
fn nodes_are_numbered_rack_by_rack() {
    let layout = Layout { zones: 2, pods: 3, racks: 4, hosts: 5 };
    let branch = layout.branch(119);
    assert_eq!((branch.zone, branch.pod, branch.rack, branch.host), (1, 2, 3, 4));
    let cluster = layout.cluster(8).unwrap();
    let counts = [Level::Zone, Level::Pod, Level::Rack, Level::Host].map(|level| cluster.count(level).0);
    assert_eq!(counts, [2, 6, 24, 120]);
}

/// In one rack only hosts are weighed against each other, and hardly more than the least moves.
#[test]
fn crush_moves_the_least_in_one_rack_and_more_in_several() {
    let flat = Layout { zones: 1, pods: 1, racks: 1, hosts: 20 };
    let moved = migration::crush(&flat, Level::Host, 5, 1).unwrap();
    assert!((1.0..1.6).contains(&(moved.share / moved.least)), "{moved:?}");
    let racks = Layout { racks: 10, hosts: 10, ..flat };
    let more = migration::crush(&racks, Level::Rack, 2, 1).unwrap();
    assert!(more.share / more.least > moved.share / moved.least, "{more:?}");
}

/// Two random nodes of eleven include the new one with 2/11.
#[test]
fn a_new_node_fills_from_new_puts() {
    let (first, until) = migration::filling(1).unwrap();
    near(first, 2.0 / 11.0, 0.09);
    assert!((3000..12_000).contains(&until), "{until}");
}

#[test]
fn capacities_are_in_the_papers_proportion() {
    let [first, second, third] = traffic::capacities();
    near(first, 1.0, 1e-9);
    near(second, 1.255, 1e-3);
    near(third, 1.515, 1e-3);
}

/// Sums of n nodes that hold g groups each vary by 1/√g; balancing leaves the mean.
#[test]
fn balancing_leaves_the_mean() {
    let layout = Layout { zones: 1, pods: 2, racks: 5, hosts: 20 };
    let case = Case { layout, objects: 400, groups: 4000, values: Values::Uniform };
    let outcome = heat::simulate(&case, 3).unwrap();
    near(outcome.crush, 1.0 + 1.28 * (1.0f64 / 20.0 + 1.33 / 400.0).sqrt(), 0.06);
    near(outcome.balanced[2], 1.0 / outcome.crush, 0.02);
    assert!(outcome.balanced[0] >= outcome.balanced[1] && outcome.balanced[1] >= outcome.balanced[2], "{outcome:?}");
    let skewed = heat::simulate(&Case { values: Values::Skewed, ..case }, 3).unwrap();
    assert!(skewed.moved < outcome.moved / 2.0, "{} and {}", skewed.moved, outcome.moved);
}

/// A command line.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: SmashArgs,
}

fn args(out: &Path, only: Vec<Experiment>, seed: u64) -> SmashArgs {
    let args = Line::try_parse_from(["smash", "--quick"]).unwrap().args;
    SmashArgs { out: out.to_owned(), only, seed, ..args }
}

/// What is computed needs no cluster.
fn nowhere(_: PathBuf) -> crate::Entering {
    unreachable!("no server is started")
}

/// What is computed, short; and the same again from the same seed. That the others run is shown by the program's own tests.
#[test]
fn all_experiments_leave_their_files() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for folder in &folders {
        let only = vec![Experiment::Migration, Experiment::Dram, Experiment::Traffic, Experiment::Heat];
        super::run(&args(folder.path(), only, 1), nowhere).unwrap();
    }
    for name in ["migration", "dram-node", "dram-shard", "dram-units", "dram-example", "traffic", "heat"] {
        let [one, other] = [0, 1].map(|at| std::fs::read_to_string(folders[at].path().join(format!("{name}.csv"))).unwrap());
        assert!(one.lines().count() > 2, "{name}: {one}");
        assert_eq!(one, other, "{name}");
        assert!(std::fs::read_to_string(folders[0].path().join(format!("{name}.md"))).unwrap().contains("Provisional"));
    }
}

/// With room for all that is read in a rack, all of it is there; with none to spare, the rest stays in its datacenter.
#[test]
fn near_placement_follows_the_capacity() {
    let folder = tempfile::tempdir().unwrap();
    super::run(&args(folder.path(), vec![Experiment::Traffic], 5), nowhere).unwrap();
    let text = std::fs::read_to_string(folder.path().join("traffic.csv")).unwrap();
    let share = |row: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(row)).unwrap();
        line.rsplit(',').next().unwrap().parse().unwrap()
    };
    near(share("roles,crush,1,nearest,any,inter-DC"), 2.0 / 3.0, 0.02);
    assert!(share("roles,near,1,nearest,1.515,intra-rack") > 0.98);
    assert!(share("roles,near,1,nearest,1.000,inter-DC") < 0.02);
    near(share("roles,near,1,nearest,1.000,intra-DC"), 0.204, 0.03);
}
