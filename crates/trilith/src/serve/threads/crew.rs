//! Threads that work until they are told to stop, and are missed if they end before.

use anyhow::{Context, anyhow, bail};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, watch};

/// Ends that wait to be heard: the first is all that matters.
const MAX_ENDINGS: usize = 1;

/// The threads.
pub struct Crew {
    shutdown: watch::Sender<bool>,
    handles: Vec<JoinHandle<anyhow::Result<()>>>,
    ended: mpsc::Receiver<anyhow::Error>,
    tell: mpsc::Sender<anyhow::Error>,
}

/// Tells of an end.
pub struct Ending {
    stopped: watch::Receiver<bool>,
    tell: mpsc::Sender<anyhow::Error>,
}

impl Crew {
    pub fn new() -> Crew {
        let (shutdown, (tell, ended)) = (watch::Sender::new(false), mpsc::channel(MAX_ENDINGS));
        Crew { shutdown, handles: Vec::new(), ended, tell }
    }

    /// True from [`Crew::tell_to_stop`] on.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.shutdown.subscribe()
    }

    /// For work that is none of the threads'.
    pub fn ending(&self) -> Ending {
        Ending { stopped: self.stopped(), tell: self.tell.clone() }
    }

    pub fn start(&mut self, name: &str, work: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
        let (ending, owned) = (self.ending(), name.to_owned());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let handle = thread.spawn(move || ending.note(&owned, work())).context("starting a core thread")?;
        self.handles.push(handle);
        Ok(())
    }

    /// Waits until one has ended that was not told to; why.
    pub async fn failed(&mut self) -> anyhow::Error {
        self.ended.recv().await.expect("this end of the channel is held here")
    }

    pub fn tell_to_stop(&self) {
        self.shutdown.send_replace(true);
    }

    /// Waits until all have ended.
    pub fn join(self) -> anyhow::Result<()> {
        self.handles.into_iter().try_for_each(|handle| handle.join().unwrap_or_else(|_| bail!("a core thread panicked")))
    }
}

impl Ending {
    /// Passes on how some work has ended. If nobody wanted that, it is told.
    pub fn note(&self, name: &str, ended: anyhow::Result<()>) -> anyhow::Result<()> {
        if !*self.stopped.borrow() {
            let why = ended.as_ref().err().map_or_else(String::new, |error| format!(": {error:#}"));
            // One that was told of before is enough.
            drop(self.tell.try_send(anyhow!("{name} has stopped serving S3{why}")));
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::Crew;
    use anyhow::bail;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Until a thread's end is heard.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_thread_that_ends_by_itself_is_missed() {
        for (name, work) in [("core-1", (|| bail!("no runtime")) as fn() -> anyhow::Result<()>), ("core-2", || Ok(()))] {
            let mut crew = Crew::new();
            crew.start(name, work).unwrap();
            let why = timeout(PATIENCE, crew.failed()).await.unwrap().to_string();
            assert!(why.contains(name) && why.contains("no runtime") == (name == "core-1"), "{why}");
        }
    }

    #[tokio::test]
    async fn threads_that_are_told_to_stop_are_not_missed() {
        let mut crew = Crew::new();
        for name in ["core-1", "core-2"] {
            let mut stopped = crew.stopped();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            crew.start(name, move || Ok(runtime.block_on(stopped.changed())?)).unwrap();
        }
        crew.tell_to_stop();
        let ended = crew.ending();
        ended.note("the main thread", Ok(())).unwrap();
        while !crew.handles.iter().all(|handle| handle.is_finished()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(crew.ended.try_recv().is_err(), "nobody is missed");
        crew.join().unwrap();
    }
}
