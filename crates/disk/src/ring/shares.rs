//! What each disk has of a ring: how much of it is with the kernel, and what waits.

use std::collections::VecDeque;

use super::{DISK_ENTRIES, DISK_QUEUE_LIMIT};
use crate::file::{DiskKey, Job};

/// The disks of one ring. Few, so they are looked through.
#[derive(Default)]
pub(super) struct Shares {
    of_disks: Vec<Share>,
    /// Jobs that wait, of all disks.
    waiting: usize,
    /// Whose turn it is when several wait for a place.
    turn: usize,
}

struct Share {
    /// Another disk's if nothing is in flight and nothing waits: only then may the disk be gone.
    disk: DiskKey,
    in_flight: usize,
    queue: VecDeque<Job>,
}

impl Share {
    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.queue.is_empty()
    }
}

impl Shares {
    /// Counts a job as being with the kernel, unless its disk has its share there, or others of it wait.
    pub fn begin(&mut self, disk: DiskKey) -> bool {
        let share = self.of(disk);
        let has_room = share.in_flight < DISK_ENTRIES && share.queue.is_empty();
        share.in_flight += usize::from(has_room);
        has_room
    }

    /// A job is with the kernel no more.
    pub fn end(&mut self, disk: DiskKey) {
        self.of(disk).in_flight -= 1;
    }

    /// Lets a job wait; gives a read back if too many do.
    pub fn wait(&mut self, job: Job) -> Option<Job> {
        let share = self.of(job.disk());
        if share.queue.len() >= DISK_QUEUE_LIMIT && job.may_be_refused() {
            return Some(job);
        }
        share.queue.push_back(job);
        self.waiting += 1;
        None
    }

    /// The next job that may go to the kernel, which counts as being there. Disks take turns.
    pub fn begin_next(&mut self) -> Option<Job> {
        let disks = self.of_disks.len();
        let turns = if self.waiting == 0 { 0 } else { disks };
        for turn in (self.turn..self.turn + turns).map(|turn| turn % disks) {
            let share = &mut self.of_disks[turn];
            if share.in_flight < DISK_ENTRIES
                && let Some(job) = share.queue.pop_front()
            {
                share.in_flight += 1;
                self.waiting -= 1;
                self.turn = turn + 1;
                return Some(job);
            }
        }
        None
    }

    pub fn is_any_waiting(&self) -> bool {
        self.waiting > 0
    }

    fn of(&mut self, disk: DiskKey) -> &mut Share {
        let is_of = |share: &Share| share.disk == disk;
        let known = self.of_disks.iter().position(is_of).or_else(|| self.of_disks.iter().position(Share::is_idle));
        let at = known.unwrap_or_else(|| {
            self.of_disks.push(Share { disk, in_flight: 0, queue: VecDeque::new() });
            self.of_disks.len() - 1
        });
        let share = &mut self.of_disks[at];
        share.disk = disk;
        share
    }
}
