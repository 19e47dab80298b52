//! Last closes under way: questions about locks of the file wait for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ids::Ino;

/// Files of which an open one is being closed that may have locked something.
#[derive(Debug, Default)]
pub struct Closing {
    files: Mutex<BTreeMap<Ino, File>>,
}

#[derive(Debug, Default)]
struct File {
    closes: usize,
    over: Arc<Notify>,
}

/// A last close under way, until it is dropped.
pub struct Close<'a> {
    of: &'a Closing,
    ino: Ino,
}

impl Closing {
    pub fn begin(&self, ino: Ino) -> Close<'_> {
        self.files.lock().entry(ino).or_default().closes += 1;
        Close { of: self, ino }
    }

    /// Until no last close of a file is under way.
    pub async fn over(&self, ino: Ino) {
        loop {
            let over;
            let notified = {
                let files = self.files.lock();
                let Some(file) = files.get(&ino) else { return };
                over = Arc::clone(&file.over);
                // From here on it hears of the end.
                over.notified()
            };
            notified.await;
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.files.lock().is_empty()
    }
}

impl Drop for Close<'_> {
    fn drop(&mut self) {
        let mut files = self.of.files.lock();
        if let Some(file) = files.get_mut(&self.ino) {
            file.closes -= 1;
            if file.closes == 0 {
                file.over.notify_waiters();
                files.remove(&self.ino);
            }
        }
    }
}
