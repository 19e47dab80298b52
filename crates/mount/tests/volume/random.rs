//! Writes, truncations and holes at random places, as databases make them, against a vector.

use std::fs::File;
use std::os::unix::fs::FileExt;

use env::Env;
use rustix::fs::{FallocateFlags, fallocate};

use crate::harness::{Mounted, open, skipped};

const LONGEST: u64 = 300_000;
const STEPS: usize = 1_500;

/// What the file should be.
#[derive(Default)]
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + data.len());
        self.0.resize(self.0.len().max(end), 0);
        self.0[start..end].copy_from_slice(data);
    }

    fn zero(&mut self, offset: u64, len: u64) {
        let end = self.0.len().min((offset + len) as usize);
        self.0[(offset as usize).min(end)..end].fill(0);
    }
}

fn step(env: &Env, step: usize, file: &File, model: &mut Model) {
    let offset = env.random_below(LONGEST);
    let len = 1 + env.random_below(if step.is_multiple_of(3) { 20_000 } else { 200 });
    match env.random_below(20) {
        0 => {
            file.set_len(offset).unwrap();
            model.0.resize(offset as usize, 0);
        }
        1 => {
            fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len).unwrap();
            model.zero(offset, len);
        }
        2 => {
            fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, offset, len).unwrap();
            model.zero(offset, len);
        }
        3 => {
            fallocate(file, FallocateFlags::empty(), offset, len).unwrap();
            let end = (offset + len) as usize;
            model.0.resize(model.0.len().max(end), 0);
        }
        4..10 => {
            let mut read = vec![0; len as usize];
            let count = file.read_at(&mut read, offset).unwrap();
            let end = model.0.len().min((offset + len) as usize);
            assert_eq!(read[..count], model.0[(offset as usize).min(end)..end], "step {step}");
        }
        10 => file.sync_all().unwrap(),
        _ => {
            let data = vec![step as u8 | 1; len as usize];
            file.write_all_at(&data, offset).unwrap();
            model.write(offset, &data);
        }
    }
}

#[test]
fn random_changes_give_what_a_vector_has() {
    if !skipped("random_changes") {
        change_at_random(Mounted::new());
    }
}

#[test]
fn random_changes_of_an_exclusive_mount_give_what_a_vector_has() {
    if !skipped("random_changes_of_an_exclusive_mount") {
        change_at_random(Mounted::exclusive());
    }
}

fn change_at_random(mut mount: Mounted) {
    let mut model = Model::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Seeded: a failure comes again.
    let env = runtime.block_on(async { Env::simulated(20) });
    for round in 0..3 {
        let file = open(&mount, "f");
        for index in 0..STEPS / 3 {
            step(&env, round * 1000 + index, &file, &mut model);
        }
        drop(file);
        mount = mount.again();
        assert_eq!(std::fs::read(mount.path("f")).unwrap(), model.0, "after round {round}");
    }
    std::fs::remove_file(mount.path("f")).unwrap();
    mount.eventually_empty();
}
