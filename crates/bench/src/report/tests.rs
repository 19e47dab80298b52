//! Tables, plots and files.

use super::{Machine, Plot, Report, Series, Table, median, spread};

#[test]
fn medians_and_their_spread() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(spread(&[1.0, 1.5, 1.25], 2), "1.25 (1.00 to 1.50)");
}

#[test]
fn tables_as_csv_and_markdown() {
    let mut table = Table::new(&["op", "cost"]);
    table.row(vec!["put".to_owned(), "2.5".to_owned()]);
    assert_eq!(table.csv(), "op,cost\nput,2.5\n");
    assert_eq!(table.markdown(), "| op | cost |\n|---|---|\n| put | 2.5 |\n");
}

#[test]
fn a_plot_keeps_its_points_within_its_frame() {
    let points = vec![(0.0, 0.0), (50.0, 10.0), (100.0, 5.0)];
    let plot = Plot {
        title: "a < b".to_owned(),
        x_label: "x".to_owned(),
        y_label: "y".to_owned(),
        series: vec![Series { name: "one".to_owned(), points }],
    };
    let svg = plot.svg();
    assert!(svg.contains("a &lt; b") && svg.ends_with("</svg>\n"), "{svg}");
    let line = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let pairs: Vec<(f64, f64)> = line
        .split(' ')
        .map(|pair| pair.split_once(',').unwrap())
        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
        .collect();
    assert_eq!(pairs.len(), 3);
    assert!(pairs.iter().all(|(x, y)| (70.0..=700.0).contains(x) && (40.0..=350.0).contains(y)), "{pairs:?}");
    assert!(pairs[0].1 > pairs[2].1 && pairs[2].1 > pairs[1].1, "greater values stand higher: {pairs:?}");
}

#[test]
fn a_plot_without_points_is_a_frame() {
    assert!(Plot::default().svg().contains("</svg>"));
}

#[test]
fn a_report_is_written_with_its_plots_and_says_when_it_is_provisional() {
    let folder = tempfile::tempdir().unwrap();
    let report = Report { title: "Title".to_owned(), plots: vec![("cpu", Plot::default())], ..Report::default() };
    let machine = Machine::look("idle", true).unwrap();
    report.write(folder.path(), "pairs", &machine).unwrap();
    let text = std::fs::read_to_string(folder.path().join("pairs.md")).unwrap();
    assert!(text.starts_with("# Title\n") && text.contains("**Provisional**") && text.contains("pairs-cpu.svg"), "{text}");
    assert!(folder.path().join("pairs.csv").exists() && folder.path().join("pairs-cpu.svg").exists());
    report.write(folder.path(), "pairs", &Machine::look("idle", false).unwrap()).unwrap();
    assert!(!std::fs::read_to_string(folder.path().join("pairs.md")).unwrap().contains("Provisional"));
}
