//! What was measured, and how it is shown.

use super::{CfsArgs, Experiment, large, metadata, small};
use crate::report::{Plot, Report, Series, Table, median, spread};

/// One rate.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Where things were done.
    pub place: &'static str,
    pub operation: &'static str,
    /// Processes, clients or KiB.
    pub at: u64,
    pub per_second: f64,
}

/// When and on what it was measured.
#[derive(Clone, Debug)]
pub struct Sample {
    pub round: u32,
    pub system: String,
    pub figure: Figure,
}

/// All of one experiment.
pub struct Outcome<'a> {
    pub experiment: Experiment,
    /// The first one is compared with the others.
    pub systems: Vec<&'a str>,
    pub samples: Vec<Sample>,
    pub rounds: u32,
}

/// What a row of the table is about.
type Case = (&'static str, &'static str, u64);

impl Sample {
    fn case(&self) -> Case {
        (self.figure.place, self.figure.operation, self.figure.at)
    }
}

impl Outcome<'_> {
    pub fn report(&self, args: &CfsArgs) -> Report {
        let mut notes = match self.experiment {
            Experiment::Metadata | Experiment::Clients => metadata::notes(args, self.experiment),
            Experiment::Small => small::notes(args),
            Experiment::Large => large::notes(args),
        };
        let caches = if args.drop_caches {
            "The kernel's caches are dropped before what reads or asks for the first time."
        } else {
            "No caches are dropped."
        };
        notes.push(format!(
            "{} rounds, all systems in turn in each. Rates are medians, with the extremes; a ratio is the median of the rounds' own. {caches}",
            self.rounds
        ));
        let title = format!("CFS: {}", self.experiment.purpose());
        Report { title, notes, summary: self.summary(), data: self.data(), plots: self.plots() }
    }

    /// Cases in the order in which they were measured, those of one operation beside each other.
    fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for case in self.samples.iter().map(Sample::case) {
            if !cases.contains(&case) {
                let beside = cases.iter().rposition(|(place, operation, _)| (*place, *operation) == (case.0, case.1));
                cases.insert(beside.map_or(cases.len(), |at| at + 1), case);
            }
        }
        cases
    }

    /// By round; a system without such a case has none.
    fn rates(&self, case: Case, system: &str) -> Vec<f64> {
        let is_wanted = |sample: &&Sample| sample.case() == case && sample.system == system;
        self.samples.iter().filter(is_wanted).map(|sample| sample.figure.per_second).collect()
    }

    fn summary(&self) -> Table {
        let others = self.systems.iter().skip(1).map(|other| format!("{} / {other}", self.systems[0]));
        let fixed = ["where", "operation", self.experiment.axis()].map(str::to_owned);
        let systems = self.systems.iter().map(|&system| system.to_owned());
        let mut table = Table::new(&fixed.into_iter().chain(systems).chain(others).collect::<Vec<_>>());
        for case in self.cases() {
            let rates: Vec<Vec<f64>> = self.systems.iter().map(|system| self.rates(case, system)).collect();
            let mut cells = vec![case.0.to_owned(), case.1.to_owned(), case.2.to_string()];
            cells.extend(rates.iter().map(|rates| shown(rates, 0)));
            cells.extend(rates.iter().skip(1).map(|other| {
                let ratios: Vec<f64> = rates[0].iter().zip(other).map(|(one, other)| one / other).collect();
                shown(&ratios, 2)
            }));
            table.row(cells);
        }
        table
    }

    fn data(&self) -> Table {
        let mut table = Table::new(&["round", "system", "where", "operation", self.experiment.axis(), "per_second"]);
        for sample in &self.samples {
            let figure = &sample.figure;
            let place = [sample.round.to_string(), sample.system.clone(), figure.place.to_owned(), figure.operation.to_owned()];
            table.row([place.to_vec(), vec![figure.at.to_string(), format!("{:.1}", figure.per_second)]].concat());
        }
        table
    }

    /// One for each operation at the first place where it was measured.
    fn plots(&self) -> Vec<(&'static str, Plot)> {
        let cases = self.cases();
        let mut plots: Vec<(&'static str, Plot)> = Vec::new();
        for &(place, operation, _) in &cases {
            if plots.iter().any(|(end, _)| *end == operation) {
                continue;
            }
            let line = |&system: &&str| {
                let of_plot = cases.iter().filter(|case| (case.0, case.1) == (place, operation));
                let rates = of_plot.map(|case| (case.2 as f64, self.rates(*case, system)));
                let points = rates.filter(|(_, rates)| !rates.is_empty()).map(|(at, rates)| (at, median(&rates)));
                Series { name: system.to_owned(), points: points.collect() }
            };
            let plot = Plot {
                title: format!("{operation}, {place}"),
                x_label: self.experiment.axis().to_owned(),
                y_label: "per second".to_owned(),
                series: self.systems.iter().map(line).collect(),
            };
            plots.push((operation, plot));
        }
        plots
    }
}

/// A median and its extremes, or that there is none.
fn shown(values: &[f64], digits: usize) -> String {
    if values.is_empty() { "none".to_owned() } else { spread(values, digits) }
}
