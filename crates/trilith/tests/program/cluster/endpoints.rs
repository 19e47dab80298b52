//! Clients for a cluster that runs already: `tests/cluster/namespaces.py` breaks its network meanwhile.
//!
//! `TRILITH_ENDPOINTS` names the S3 ports, separated by commas; the bucket `linear` is there and open to everybody. Each line on standard
//! input begins a phase and names it. At the end of input the clients end, and after a line `settled` before it all is read once and
//! the history judged. Printed is a table of the phases.

use super::traffic::Traffic;
use crate::linear::load::Load;
use env::Instant;
use std::io::Write;

/// A named while.
struct Phase {
    name: String,
    from: Instant,
}

#[test]
#[ignore = "needs a cluster that runs: tests/cluster/namespaces.py"]
fn clients_of_a_cluster_that_runs() {
    let endpoints = std::env::var("TRILITH_ENDPOINTS").expect("TRILITH_ENDPOINTS names the S3 ports");
    let nodes: Vec<String> = endpoints.split(',').map(str::to_owned).collect();
    let mut traffic = Traffic::new();
    let mut lines = std::io::stdin().lines().map(|line| line.expect("standard input can be read"));
    traffic.during(&nodes, |load| {
        let mut phases = vec![Phase { name: "start".to_owned(), from: load.now() }];
        for name in lines.by_ref().take_while(|line| line != "settled") {
            phases.push(Phase { name, from: load.now() });
        }
        print_table(load, &phases);
    });
    traffic.look(&nodes);
    traffic.judge();
    println!("all that was heard has an explanation");
}

fn print_table(load: &Load, phases: &[Phase]) {
    let mut out = std::io::stdout().lock();
    let kinds = "                                              reads                          writes";
    writeln!(out, "{kinds}\nphase                                seconds  served refused wait gap    served refused wait gap")
        .unwrap();
    let ends = phases.iter().skip(1).map(|phase| phase.from).chain([load.now()]);
    for (phase, end) in phases.iter().zip(ends) {
        let seconds = |time: std::time::Duration| time.as_secs_f64();
        write!(out, "{:36} {:7.1}", phase.name, seconds(end - phase.from)).unwrap();
        for writes in [false, true] {
            let tally = load.tally(writes, phase.from, end);
            let (wait, gap) = (seconds(tally.longest_wait), seconds(tally.longest_gap));
            write!(out, "  {:6} {:7} {wait:4.1} {gap:4.1}", tally.served, tally.refused).unwrap();
        }
        writeln!(out).unwrap();
    }
}
