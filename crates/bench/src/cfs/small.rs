//! Small files (paper, section 6.4): written once, read with caches dropped before, and read again.

use super::CfsArgs;
use super::folders::{System, drop_caches};
use super::outcome::Figure;
use super::workers::{rate, together};
use crate::random::mix64;
use anyhow::{Context, ensure};
use std::fs::{File, create_dir};
use std::io::{Read, Write};
use std::path::Path;

const PLACE: &str = "own directories";

/// Every size, with the most processes on one client.
pub fn run(args: &CfsArgs, system: &System) -> anyhow::Result<Vec<Figure>> {
    let workers = args.most_processes();
    let count = u64::from(args.items()) * workers as u64;
    let mut figures = Vec::new();
    for kib in args.sizes_kib() {
        let work = system.work(1)?;
        let folder = |worker: usize| work.through(worker).join(format!("worker-{worker}"));
        (0..workers).try_for_each(|worker| create_dir(folder(worker)))?;
        let all = |call: fn(&Path, &[u8]) -> anyhow::Result<()>| {
            together(workers, |worker| {
                (0..args.items()).try_for_each(|number| {
                    let path = folder(worker).join(format!("file-{number}"));
                    call(&path, &content(kib << 10, worker, number)).with_context(|| path.display().to_string())
                })
            })
        };
        let created = all(create)?;
        drop_caches(args.drop_caches)?;
        let times = [("Create", created), ("Read", all(check)?), ("ReadAgain", all(check)?)];
        work.remove()?;
        figures.extend(times.map(|(operation, took)| Figure {
            place: PLACE,
            operation,
            at: *kib as u64,
            per_second: rate(count, took),
        }));
    }
    Ok(figures)
}

/// What a file has: the same bytes all over, which differ from file to file.
fn content(bytes: usize, worker: usize, number: u32) -> Vec<u8> {
    let word = mix64((worker as u64) << 32 | u64::from(number)).to_le_bytes();
    word.repeat(bytes / word.len())
}

fn create(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    Ok(File::create_new(path)?.write_all(content)?)
}

/// Reads a file as one that was written with `content`.
fn check(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut found = Vec::with_capacity(content.len() + 1);
    File::open(path)?.read_to_end(&mut found)?;
    ensure!(found == content, "{} reads as something else than was written", path.display());
    Ok(())
}

/// How it was measured, a line each.
pub fn notes(args: &CfsArgs) -> Vec<String> {
    vec![
        format!(
            "{} processes on one client, each with {} files in a directory of its own: created, written with one call and closed; opened, read and \
             compared; the same again.",
            args.most_processes(),
            args.items()
        ),
        "Nothing is synchronised: a system that keeps what was written in memory answers before it is durable.".to_owned(),
    ]
}
