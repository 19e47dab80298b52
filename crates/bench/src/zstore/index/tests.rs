use super::*;

fn sample(connections: u32, round: u32, system: usize, cpu_ms: u64) -> Sample {
    let spent = Spent { requests: 1000, wall: Duration::from_secs(1), cpu: Duration::from_millis(cpu_ms), ..Spent::default() };
    Sample { connections, round, system, spent }
}

#[test]
fn ratios_are_of_each_round_by_itself() {
    // The machine gets slower from round to round: medians of the costs would say otherwise.
    let rounds = [[100, 110, 100], [200, 210, 202], [400, 400, 396]];
    let mut samples = Vec::new();
    for connections in CONNECTIONS {
        for (round, costs) in rounds.iter().enumerate() {
            // Of a later round another system is the first.
            for turn in 0..SYSTEMS.len() {
                let system = (turn + round) % SYSTEMS.len();
                samples.push(sample(connections, round as u32, system, costs[system]));
            }
        }
    }
    let scale = Scale { quick: true, rounds: 3, duration: Duration::from_secs(1) };
    let report = report(&samples, &[60_000, 9_000, 60_000], 1000, &scale);
    let text = report.text();
    assert!(text.contains("1.050 (1.000 to 1.100)"), "{text}");
    assert!(text.contains("1.000 (0.990 to 1.010)"), "{text}");
    assert!(report.notes.iter().any(|note| note.contains("full 60.0, ludo 9.0, full-again 60.0")), "{:?}", report.notes);
    assert_eq!(report.data.rows.len(), samples.len());
}
