//! What Raft's tasks tell each other through: `env`'s channel, which wakes those who wait in their order.

use env::watch::{Receiver, Ref, Sender, channel};
use openraft::OptionalSend;
use openraft::async_runtime::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};

/// Names the channel for Raft.
pub(crate) struct EnvWatch;

pub(crate) struct EnvSender<T>(Sender<T>);

pub(crate) struct EnvReceiver<T>(Receiver<T>);

impl<T> Clone for EnvSender<T> {
    fn clone(&self) -> Self {
        EnvSender(self.0.clone())
    }
}

impl<T> Clone for EnvReceiver<T> {
    fn clone(&self) -> Self {
        EnvReceiver(self.0.clone())
    }
}

impl Watch for EnvWatch {
    type Sender<T: OptionalSend + Sync> = EnvSender<T>;
    type Receiver<T: OptionalSend + Sync> = EnvReceiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + Sync>(init: T) -> (EnvSender<T>, EnvReceiver<T>) {
        let (sender, receiver) = channel(init);
        (EnvSender(sender), EnvReceiver(receiver))
    }
}

impl<T: OptionalSend + Sync> WatchSender<EnvWatch, T> for EnvSender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value).map_err(SendError)
    }

    fn send_if_modified<F: FnOnce(&mut T) -> bool>(&self, modify: F) -> bool {
        self.0.send_if_modified(modify)
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.borrow()
    }

    fn subscribe(&self) -> EnvReceiver<T> {
        EnvReceiver(self.0.subscribe())
    }
}

impl<T: OptionalSend + Sync> WatchReceiver<EnvWatch, T> for EnvReceiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        self.0.changed().await.map_err(|_| RecvError(()))
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.0.borrow_and_update()
    }
}
