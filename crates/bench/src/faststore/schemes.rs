//! Table I: five writes of 64 KiB in three schemes, and what the device is asked for by each.

use super::ground::{BATCH, Ground, PAPER_UNIT_BYTES};
use super::path::{Cost, Counted, Step, WritePath, content, counted};
use super::{FaststoreArgs, Named};
use crate::report::{Report, Table};
use anyhow::ensure;

/// Bytes of each write.
pub const LENGTH: u32 = 64 << 10;
/// Writes of each object.
pub const WRITES: u32 = 5;
const OBJECTS: u32 = 8;
const QUICK_OBJECTS: u32 = 2;
/// Of the baseline's device, for each object: what it has and a copy, twice over.
pub const ROOM_BYTES: u32 = 8 * LENGTH;

/// A row of table I: where the first write begins, and the others.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    pub number: u32,
    pub first: u32,
    pub others: u32,
}

pub const SCHEMES: [Scheme; 3] = [
    Scheme { number: 1, first: 0, others: 0 },
    Scheme { number: 2, first: 32 << 10, others: 32 << 10 },
    Scheme { number: 3, first: 32 << 10, others: 31 << 10 },
];

impl Scheme {
    /// Where a write begins; the first one has number 1.
    pub fn offset(&self, write: u32) -> u32 {
        if write == 1 { self.first } else { self.others }
    }
}

pub const PATHS: [&str; 2] = ["BlueStore", "in place"];

/// What one write of a scheme costs, the same for each object.
#[derive(Clone, Debug)]
pub struct Row {
    pub path: &'static str,
    pub scheme: u32,
    pub write: u32,
    pub counted: Counted,
}

pub fn run(args: &FaststoreArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let objects = if args.quick { QUICK_OBJECTS } else { OBJECTS };
    let rows = ground.run(async || {
        let mut rows = Vec::new();
        for scheme in &SCHEMES {
            let mut path = ground.bluestore(objects * ROOM_BYTES, PAPER_UNIT_BYTES, BATCH).await?;
            rows.extend(count(&mut path, PATHS[0], scheme, objects, args.seed).await?);
        }
        for scheme in &SCHEMES {
            let mut path = ground.in_place(objects).await?;
            rows.extend(count(&mut path, PATHS[1], scheme, objects, args.seed).await?);
        }
        Ok(rows)
    })?;
    Ok(vec![("table1", report(&rows, objects))])
}

/// Writes each object five times, and checks what it reads as afterwards.
pub async fn count(
    path: &mut impl WritePath,
    name: &'static str,
    scheme: &Scheme,
    objects: u32,
    seed: u64,
) -> anyhow::Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut expected = vec![vec![0; 3 * LENGTH as usize]; objects as usize];
    for write in 1..=WRITES {
        for (object, expected) in (0..).zip(&mut expected) {
            let (at, data) = (scheme.offset(write), content(seed ^ u64::from(object * WRITES + write), LENGTH));
            expected[at as usize..(at + LENGTH) as usize].copy_from_slice(&data);
            let counted = counted(path, object, at, data).await?;
            match rows.iter().find(|row| row.write == write) {
                Some(row) => ensure!(
                    (row.counted.acknowledged, row.counted.later) == (counted.acknowledged, counted.later),
                    "{name}, scheme {}, write {write}: object {object} costs {counted:?}, the first one {row:?}",
                    scheme.number
                ),
                None => rows.push(Row { path: name, scheme: scheme.number, write, counted }),
            }
        }
    }
    for (object, expected) in (0..).zip(&expected) {
        let found = path.read(object, 0..expected.len() as u32).await?;
        ensure!(&found == expected, "{name}, scheme {}: object {object} reads as something else", scheme.number);
    }
    Ok(rows)
}

/// Such as `small COW, small COW`.
pub fn strategies(steps: &[Step]) -> String {
    let name = |step: &Step| match step.cut {
        Some((size, strategy)) => format!("{} {}", format!("{size:?}").to_lowercase(), strategy.name()),
        None => "in place".to_owned(),
    };
    steps.iter().map(name).collect::<Vec<String>>().join(" + ")
}

/// Bytes as KiB.
pub fn kib(bytes: u64) -> String {
    format!("{}", bytes as f64 / 1024.0)
}

pub const COST_COLUMNS: [&str; 7] =
    ["device_writes", "written_bytes", "durable_writes", "flushes", "device_reads", "read_bytes", "zeroings"];

pub fn cost_cells(cost: &Cost) -> Vec<String> {
    let counts = [cost.writes, cost.write_bytes, cost.durable_writes, cost.flushes, cost.reads, cost.read_bytes, cost.zeroings];
    counts.iter().map(u64::to_string).collect()
}

fn report(rows: &[Row], objects: u32) -> Report {
    let mut summary = Table::new(&[
        "path",
        "scheme",
        "write",
        "what is done",
        "device writes",
        "KiB written",
        "written / asked",
        "waits for the medium until acknowledged",
        "device reads",
        "KiB read",
        "of it after the acknowledgement",
    ]);
    let columns = ["path", "scheme", "write", "phase"].into_iter().chain(COST_COLUMNS).collect::<Vec<_>>();
    let mut data = Table::new(&columns);
    for row in rows {
        let (now, later) = (row.counted.acknowledged, row.counted.later);
        let mut all = now;
        all += later;
        let rest = if later == Cost::default() {
            "nothing".to_owned()
        } else {
            format!("device writes: {}, KiB: {}, flushes: {}", later.writes, kib(later.write_bytes), later.flushes)
        };
        let place = [row.path.to_owned(), row.scheme.to_string(), row.write.to_string()];
        let mut cells = place.to_vec();
        cells.extend([
            strategies(&row.counted.steps),
            all.writes.to_string(),
            kib(all.write_bytes),
            format!("{:.2}", all.write_bytes as f64 / f64::from(LENGTH)),
            (now.durable_writes + now.flushes).to_string(),
            all.reads.to_string(),
            kib(all.read_bytes),
            rest,
        ]);
        summary.row(cells);
        for (phase, cost) in [("until acknowledged", now), ("later", later)] {
            let mut cells = place.to_vec();
            cells.push(phase.to_owned());
            cells.extend(cost_cells(&cost));
            data.row(cells);
        }
    }
    let notes = vec![
        "The paper's table I: schemes 1, 2 and 3 begin at 0, 32 KiB and 32 KiB with the first write, and at 0, 32 KiB and 31 KiB with the four that \
         follow. Each write has 64 KiB."
            .to_owned(),
        format!("Counted by the disk under each path, for {objects} objects; each of them cost the same. Both paths read back what was written."),
        "BlueStore: min_alloc_size 64 KiB, blocks of 4 KiB. Deferred data is brought to its place after each write, so that it can be counted; in use \
         64 such writes share a flush. The log takes 4 KiB for each commit, or the data and 4 KiB."
            .to_owned(),
        "In place: the image's holder and store as they are served, one copy. The first write to a piece of 64 KiB writes it whole, and then the \
         header of the blob."
            .to_owned(),
    ];
    Report {
        title: "Five repeated writes, counted at the device (table I)".to_owned(),
        notes,
        summary,
        data,
        plots: Vec::new(),
    }
}
