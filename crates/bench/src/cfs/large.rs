//! Large files (paper, section 6.3): each process has one, and reads and writes it past the page cache.

use super::CfsArgs;
use super::folders::{System, Work, drop_caches};
use super::outcome::Figure;
use super::workers::{rate, together};
use crate::random::Random;
use anyhow::{Context, ensure};
use disk::AlignedBuf;
use rustix::fs::{Mode, OFlags};
use rustix::io::{pread, pwrite};
use std::os::fd::OwnedFd;

const PLACE: &str = "a file each";
/// Of one request in sequence: the paper's packet.
const SEQUENTIAL_BYTES: u64 = 128 << 10;
/// Of one request at random.
const RANDOM_BYTES: u64 = 4 << 10;
/// Requests at random of each process, for each MiB of its file.
const REQUESTS_A_MIB: u64 = 16;

/// What is done to the files, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    SequentialWrite,
    SequentialRead,
    RandomRead,
    RandomWrite,
    /// Each write is made durable before the next one.
    DurableWrite,
}

impl Access {
    const ALL: [Access; 5] =
        [Access::SequentialWrite, Access::SequentialRead, Access::RandomRead, Access::RandomWrite, Access::DurableWrite];

    fn name(self) -> &'static str {
        match self {
            Access::SequentialWrite => "SequentialWrite",
            Access::SequentialRead => "SequentialRead",
            Access::RandomRead => "RandomRead",
            Access::RandomWrite => "RandomWrite",
            Access::DurableWrite => "DurableWrite",
        }
    }

    fn is_sequential(self) -> bool {
        matches!(self, Access::SequentialWrite | Access::SequentialRead)
    }

    fn is_read(self) -> bool {
        matches!(self, Access::SequentialRead | Access::RandomRead)
    }

    /// Bytes of one request.
    fn bytes(self) -> u64 {
        if self.is_sequential() { SEQUENTIAL_BYTES } else { RANDOM_BYTES }
    }

    /// Requests of one process.
    fn requests(self, file_bytes: u64) -> u64 {
        if self.is_sequential() { file_bytes / SEQUENTIAL_BYTES } else { (file_bytes >> 20) * REQUESTS_A_MIB }
    }
}

/// Every access with each number of processes on one client.
pub fn run(args: &CfsArgs, system: &System) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for processes in args.processes() {
        let work = system.work(1)?;
        for access in Access::ALL {
            drop_caches(args.drop_caches && access.is_read())?;
            let took = together(processes, |worker| run_one(&work, access, worker, args.large_bytes()))
                .with_context(|| format!("{} of {processes} processes", access.name()))?;
            let requests = access.requests(args.large_bytes()) * processes as u64;
            figures.push(Figure {
                place: PLACE,
                operation: access.name(),
                at: processes as u64,
                per_second: rate(requests, took),
            });
        }
        work.remove()?;
    }
    Ok(figures)
}

/// All requests of one process. A written block has its offset in front, which is what a read looks at.
fn run_one(work: &Work, access: Access, worker: usize, file_bytes: u64) -> anyhow::Result<()> {
    let file = open(work, access, worker)?;
    let mut random = Random::new(worker as u64, access as u64);
    let mut buffer = AlignedBuf::zeroed(access.bytes() as usize);
    for request in 0..access.requests(file_bytes) {
        let slot = if access.is_sequential() { request } else { random.below(file_bytes / access.bytes()) };
        let at = slot * access.bytes();
        if access.is_read() {
            let count = pread(&file, &mut buffer[..], at)?;
            ensure!(count as u64 == access.bytes(), "{count} bytes at {at}, {} were written", access.bytes());
            ensure!(is_stamped(&buffer, at), "what is read at {at} was not written there");
        } else {
            stamp(&mut buffer, at);
            let count = pwrite(&file, &buffer[..], at)?;
            ensure!(count as u64 == access.bytes(), "only {count} bytes were written at {at}");
        }
        if access == Access::DurableWrite {
            rustix::fs::fdatasync(&file)?;
        }
    }
    if access == Access::SequentialWrite {
        rustix::fs::fsync(&file)?;
    }
    Ok(())
}

/// Past the page cache.
fn open(work: &Work, access: Access, worker: usize) -> anyhow::Result<OwnedFd> {
    let path = work.through(worker).join(format!("large-{worker}"));
    let how = if access.is_read() { OFlags::RDONLY } else { OFlags::WRONLY | OFlags::CREATE };
    rustix::fs::open(&path, how | OFlags::DIRECT | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("opening {} past the page cache", path.display()))
}

/// Each small block says where it is.
fn stamp(buffer: &mut [u8], at: u64) {
    for (block, place) in buffer.chunks_exact_mut(RANDOM_BYTES as usize).zip((at..).step_by(RANDOM_BYTES as usize)) {
        block[..8].copy_from_slice(&place.to_le_bytes());
    }
}

fn is_stamped(buffer: &[u8], at: u64) -> bool {
    let blocks = buffer.chunks_exact(RANDOM_BYTES as usize);
    blocks.zip((at..).step_by(RANDOM_BYTES as usize)).all(|(block, place)| block[..8] == place.to_le_bytes())
}

/// How it was measured, a line each.
pub fn notes(args: &CfsArgs) -> Vec<String> {
    let mib = args.large_bytes() >> 20;
    vec![
        format!(
            "Each process has a file of {mib} MiB and one request under way, with O_DIRECT: {} KiB in sequence, {} KiB at random, {} of these. \
             The paper's files have 40 GB.",
            SEQUENTIAL_BYTES >> 10,
            RANDOM_BYTES >> 10,
            mib * REQUESTS_A_MIB
        ),
        "Rates are requests a second. SequentialWrite ends with an fsync; DurableWrite has an fdatasync after each request, which the paper has not."
            .to_owned(),
    ]
}
