//! The runtime of experiments that run the system's code in this process.

/// Runs work on a thread that counts as a core of the system, with a ring for its disks.
pub fn on_core<T>(core: usize, work: impl AsyncFnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    env::set_core_index(core);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        // Where the system refuses rings the disk's own threads do the work.
        let _ring = disk::install_ring().ok();
        work().await
    })
}
