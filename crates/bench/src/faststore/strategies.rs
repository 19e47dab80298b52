//! Table II: what each write does. First the paper's rows, then sizes and alignments with other values of `min_alloc_size`.

use super::ground::{Ground, PAPER_UNIT_BYTES};
use super::path::{Cost, Counted, WritePath, content, counted};
use super::schemes::{COST_COLUMNS, ROOM_BYTES, SCHEMES, cost_cells, kib, strategies};
use super::{FaststoreArgs, Named};
use crate::report::{Report, Table};

const KIB: u32 = 1 << 10;
/// Values of `min_alloc_size`: the paper's, those of BlueStore on flash, and one between.
const UNITS: [u32; 3] = [4 * KIB, 16 * KIB, PAPER_UNIT_BYTES];
const LENGTHS: [u32; 5] = [KIB / 2, 4 * KIB, 16 * KIB, 64 * KIB, 1024 * KIB];
/// Where writes begin: at a unit of every kind, and a sector behind it.
const OFFSETS: [u32; 2] = [0, KIB / 2];
/// Of the baseline's device for the sizes: objects have 1 MiB and a sector, each of them twice, in whole units.
const SIZES_ROOM_BYTES: u32 = 64 << 20;

/// A row of the paper's table II, and what it says is done.
pub struct PaperRow {
    pub name: &'static str,
    pub scheme: usize,
    pub write: u32,
    pub strategies: &'static str,
}

pub const PAPER: [PaperRow; 6] = [
    PaperRow { name: "1-1", scheme: 0, write: 1, strategies: "big NEW" },
    PaperRow { name: "1-2", scheme: 0, write: 2, strategies: "big COW" },
    PaperRow { name: "2-1", scheme: 1, write: 1, strategies: "small NEW + small NEW" },
    PaperRow { name: "2-2", scheme: 1, write: 2, strategies: "small COW + small COW" },
    PaperRow { name: "3-1", scheme: 2, write: 1, strategies: "small NEW + small NEW" },
    PaperRow { name: "3-2", scheme: 2, write: 2, strategies: "small RMW + small RMW" },
];

/// One write of the sizes.
struct Sized {
    path: String,
    length: u32,
    offset: u32,
    write: &'static str,
    counted: Counted,
}

pub fn run(args: &FaststoreArgs, ground: &Ground) -> anyhow::Result<Vec<Named>> {
    let (paper, sized) = ground.run(async || {
        let paper = [
            paper_rows(&mut paper_baseline(ground).await?, args.seed).await?,
            paper_rows(&mut ground.in_place(3).await?, args.seed).await?,
        ];
        let mut sized = Vec::new();
        for unit in UNITS {
            let mut path = ground.bluestore(SIZES_ROOM_BYTES, unit, 1).await?;
            sized.extend(sizes(&mut path, &format!("BlueStore {} KiB", unit / KIB), args.seed).await?);
        }
        let objects = (LENGTHS.len() * OFFSETS.len()) as u32;
        sized.extend(sizes(&mut ground.in_place(objects).await?, "in place", args.seed).await?);
        Ok((paper, sized))
    })?;
    Ok(vec![("table2", paper_report(&paper)), ("table2-sizes", sizes_report(&sized))])
}

async fn paper_baseline(ground: &Ground) -> anyhow::Result<super::bluestore::BlueStore> {
    ground.bluestore(3 * ROOM_BYTES, PAPER_UNIT_BYTES, 1).await
}

/// The writes of the paper's rows, each scheme in an object of its own.
pub async fn paper_rows(path: &mut impl WritePath, seed: u64) -> anyhow::Result<Vec<Counted>> {
    let mut rows = Vec::new();
    for row in &PAPER {
        let at = SCHEMES[row.scheme].offset(row.write);
        let data = content(seed ^ rows.len() as u64, super::schemes::LENGTH);
        rows.push(counted(path, row.scheme as u32, at, data).await?);
    }
    Ok(rows)
}

async fn sizes(path: &mut impl WritePath, name: &str, seed: u64) -> anyhow::Result<Vec<Sized>> {
    let mut rows = Vec::new();
    let cases = LENGTHS.into_iter().flat_map(|length| OFFSETS.map(|offset| (length, offset)));
    for (object, (length, offset)) in (0..).zip(cases) {
        for write in ["first", "overwrite"] {
            let counted = counted(path, object, offset, content(seed ^ u64::from(object), length)).await?;
            rows.push(Sized { path: name.to_owned(), length, offset, write, counted });
        }
    }
    Ok(rows)
}

/// Until the acknowledgement and later.
fn whole(counted: &Counted) -> Cost {
    let mut all = counted.acknowledged;
    all += counted.later;
    all
}

/// Such as `2 writes 68 KiB, 1 read 4 KiB`.
fn in_words(cost: &Cost) -> String {
    let mut words = format!("{} / {} KiB", cost.writes, kib(cost.write_bytes));
    if cost.reads > 0 {
        words += &format!("; read {} / {} KiB", cost.reads, kib(cost.read_bytes));
    }
    words
}

fn paper_report(paths: &[Vec<Counted>; 2]) -> Report {
    let mut summary = Table::new(&[
        "no",
        "range",
        "aligned to BS",
        "aligned to MAS",
        "overwrite",
        "paper",
        "BlueStore here",
        "BlueStore: device writes",
        "in place: device writes",
        "BlueStore: written / asked",
        "in place: written / asked",
    ]);
    let columns = ["no", "path", "phase"].into_iter().chain(COST_COLUMNS).collect::<Vec<_>>();
    let mut data = Table::new(&columns);
    let [bluestore, in_place] = paths;
    let sign = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    for ((row, theirs), ours) in PAPER.iter().zip(bluestore).zip(in_place) {
        let (at, length) = (SCHEMES[row.scheme].offset(row.write), super::schemes::LENGTH);
        let ratio = |counted| format!("{:.2}", whole(counted).write_bytes as f64 / f64::from(length));
        summary.row(vec![
            row.name.to_owned(),
            format!("{} to {} KiB", at / KIB, (at + length) / KIB),
            sign(at.is_multiple_of(4 * KIB)),
            sign(at.is_multiple_of(PAPER_UNIT_BYTES)),
            sign(row.write > 1),
            row.strategies.to_owned(),
            strategies(&theirs.steps),
            in_words(&whole(theirs)),
            in_words(&whole(ours)),
            ratio(theirs),
            ratio(ours),
        ]);
        for (path, counted) in super::schemes::PATHS.into_iter().zip([theirs, ours]) {
            for (phase, cost) in [("until acknowledged", counted.acknowledged), ("later", counted.later)] {
                let mut cells = vec![row.name.to_owned(), path.to_owned(), phase.to_owned()];
                cells.extend(cost_cells(&cost));
                data.row(cells);
            }
        }
    }
    let notes = vec![
        "min_alloc_size (MAS) 64 KiB, blocks (BS) of 4 KiB, writes of 64 KiB. Device writes and reads: number / bytes, deferred ones included.".to_owned(),
        "Row 3-2 of the paper begins at 32 KiB and is cut at 32 KiB. Its scheme 3 begins at 31 KiB, and a cut by MAS, as in rows 2-1 and 2-2, is at \
         64 KiB: that is done here, and both parts are read, merged and logged, as in the paper."
            .to_owned(),
    ];
    Report { title: "What each write does (table II)".to_owned(), notes, summary, data, plots: Vec::new() }
}

fn sizes_report(rows: &[Sized]) -> Report {
    let mut summary = Table::new(&[
        "length",
        "offset",
        "write",
        "BlueStore, MAS 4 KiB",
        "BlueStore, MAS 16 KiB",
        "BlueStore, MAS 64 KiB",
        "in place",
        "written / asked",
    ]);
    let columns =
        ["path", "length", "offset", "write", "strategies", "phase"].into_iter().chain(COST_COLUMNS).collect::<Vec<_>>();
    let mut data = Table::new(&columns);
    for first in rows.iter().filter(|row| row.path == "in place") {
        let same = rows.iter().filter(|row| (row.length, row.offset, row.write) == (first.length, first.offset, first.write));
        let (mut cells, mut ratios) =
            (vec![kib(first.length.into()) + " KiB", kib(first.offset.into()) + " KiB", first.write.to_owned()], Vec::new());
        for row in same {
            let cost = whole(&row.counted);
            cells.push(format!("{}: {}", strategies(&row.counted.steps), in_words(&cost)));
            ratios.push(format!("{:.1}", cost.write_bytes as f64 / f64::from(row.length)));
        }
        cells.push(ratios.join("; "));
        summary.row(cells);
    }
    for row in rows {
        for (phase, cost) in [("until acknowledged", row.counted.acknowledged), ("later", row.counted.later)] {
            let place = [row.path.clone(), row.length.to_string(), row.offset.to_string(), row.write.to_owned()];
            let mut cells = place.to_vec();
            cells.extend([strategies(&row.counted.steps), phase.to_owned()]);
            cells.extend(cost_cells(&cost));
            data.row(cells);
        }
    }
    let notes = vec![
        "Each length and offset in an object of its own: a first write, then an overwrite of the same range. Device writes and reads: number / bytes, \
         deferred ones included. The last column has the bytes written for each byte asked for, in the order of the columns before it."
            .to_owned(),
        "BlueStore takes 4 KiB of log for each commit. Its write of deferred data is counted with the write that it is of.".to_owned(),
    ];
    let title = "What each write does, by size, alignment and min_alloc_size".to_owned();
    Report { title, notes, summary, data, plots: Vec::new() }
}
