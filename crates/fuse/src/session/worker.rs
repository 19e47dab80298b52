//! One thread of a session: reads a request, serves it, reads the next.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll;
use rustix::io::Errno;

use super::End;
use super::core::Core;
use super::dispatch::serve;
use crate::file_system::FileSystem;

pub(super) fn run<F: FileSystem>(core: &Arc<Core>, file_system: &F, device: usize, buffer_bytes: usize) {
    // If a handler panics the other threads go on, and the session's end counts this one too.
    let mut leaving = Leaving { core, file_system, end: End::Failed(Errno::IO) };
    leaving.end = read_and_serve(core, file_system, device, buffer_bytes);
}

struct Leaving<'a, F: FileSystem> {
    core: &'a Core,
    file_system: &'a F,
    end: End,
}

impl<F: FileSystem> Drop for Leaving<'_, F> {
    fn drop(&mut self) {
        if self.core.thread_ends(self.end.clone()) {
            self.file_system.destroy(&self.end);
        }
    }
}

fn read_and_serve<F: FileSystem>(core: &Arc<Core>, file_system: &F, device: usize, buffer_bytes: usize) -> End {
    let mut buffer = vec![0; buffer_bytes];
    let wake = match wake_by(core, device) {
        Ok(wake) => wake,
        Err(errno) => return End::Failed(errno),
    };
    loop {
        if let Err(errno) = wait(&wake) {
            return End::Failed(errno);
        }
        if core.is_stopping() {
            return End::Stopped;
        }
        match core.device(device).read(&mut buffer) {
            Ok(0) => return End::Unmounted,
            Ok(read) => serve(core, file_system, device, &buffer[..read]),
            // EAGAIN: another thread was faster. ENOENT: the request was given up while it was being read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(Errno::NODEV) => return End::Unmounted,
            Err(Errno::CONNABORTED) => return End::Aborted,
            Err(errno) => {
                tracing::error!(%errno, "reading requests failed");
                return End::Failed(errno);
            }
        }
    }
}

/// What wakes this thread: a request that wakes no other, or the session's stop.
fn wake_by(core: &Core, device: usize) -> Result<OwnedFd, Errno> {
    let wake = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let nothing = epoll::EventData::new_u64(0);
    epoll::add(&wake, core.device(device), nothing, epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE)?;
    epoll::add(&wake, core.stop_signal(), nothing, epoll::EventFlags::IN)?;
    Ok(wake)
}

fn wait(wake: &OwnedFd) -> Result<(), Errno> {
    let mut event = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    match epoll::wait(wake, &mut event, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
