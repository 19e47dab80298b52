//! A gateway's hold on a target of another node: everything takes a while, and what a dead gateway sent may still arrive.

use super::life::Life;
use device::{AppendDone, AppendError, Appended, Device, LogVector, PieceOfFrame, Usage, ZoneInfo, ZoneStream};
use env::Env;
use format::frame::FrameView;
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use target::{
    FrameRead, LocalTarget, LogAppend, LogTarget, LogWalk, PieceRead, ReadFailure, Target, TargetFailure, WalkRange, Writer,
};
use types::{Activation, DeviceId, ErrorKind, Place, ZoneIndex};

/// Devices that nobody reaches.
pub type Down = Arc<Mutex<BTreeSet<DeviceId>>>;

/// The hold.
pub struct Wire {
    env: Env,
    life: Arc<Life>,
    down: Down,
    local: Arc<LocalTarget>,
    /// Reads need not wait.
    is_near: bool,
    delay_us: u64,
}

/// An append's answer on its way back.
struct Back {
    env: Env,
    life: Arc<Life>,
    done: Arc<dyn AppendDone>,
    delay: Duration,
}

impl AppendDone for Back {
    fn appended(&self, tag: u64, result: Result<Appended, AppendError>) {
        let (env, life, done, delay) = (self.env.clone(), self.life.clone(), self.done.clone(), self.delay);
        self.env.spawn(async move {
            env.sleep(delay).await;
            if life.is_alive() {
                done.appended(tag, result);
            }
        });
    }
}

impl Wire {
    pub fn new(env: &Env, life: &Arc<Life>, down: &Down, target: &Arc<Target>, writer: Writer, is_near: bool) -> Wire {
        let local = Arc::new(LocalTarget::new(target.clone(), writer));
        let delay_us = if is_near { 100 } else { 1_500 };
        Wire { env: env.clone(), life: life.clone(), down: down.clone(), local, is_near, delay_us }
    }

    /// Now and then something takes very long.
    fn delay(&self) -> Duration {
        let longer = if self.env.random_below(40) == 0 { 20 } else { 1 };
        Duration::from_micros(self.env.random_below(self.delay_us * longer) + 1)
    }

    fn is_down(&self) -> bool {
        self.down.lock().contains(&self.local.id())
    }

    /// One way to the target or back. Nothing happens any more in a process that has ended.
    async fn way(&self) -> Result<(), TargetFailure> {
        self.env.sleep(self.delay()).await;
        self.life.stay().await;
        match self.is_down() {
            true => Err(TargetFailure { kind: ErrorKind::Unavailable, reason: "the target is out of reach".to_owned() }),
            false => Ok(()),
        }
    }

    fn unanswered(&self) -> AppendError {
        AppendError::Unanswered { device: self.local.id(), reason: "the target is out of reach".into() }
    }
}

fn unavailable(error: TargetFailure) -> ReadFailure {
    ReadFailure::Unavailable(error.reason)
}

impl LogTarget for Wire {
    fn id(&self) -> DeviceId {
        self.local.id()
    }

    fn local(&self) -> Option<&Arc<Device>> {
        self.local.local().filter(|_| self.is_near)
    }

    fn append(&self, append: LogAppend, compose: &mut dyn FnMut(&mut [u8])) -> Result<(), AppendError> {
        let LogAppend { class, frame_bytes, done, tag } = append;
        let mut bytes = vec![0u8; frame_bytes];
        compose(&mut bytes);
        let (delay, back, is_lost) = (self.delay(), self.delay(), self.env.random_below(2) == 0);
        let back: Arc<dyn AppendDone> = Arc::new(Back { env: self.env.clone(), life: self.life.clone(), done, delay: back });
        let (env, local, down, unanswered) = (self.env.clone(), self.local.clone(), self.down.clone(), self.unanswered());
        self.env.spawn(async move {
            env.sleep(delay).await;
            if down.lock().contains(&local.id()) {
                if !is_lost {
                    let forgotten: Arc<dyn AppendDone> = Arc::new(Forgotten);
                    let call = LogAppend { class, frame_bytes, done: forgotten, tag };
                    drop(local.append(call, &mut |slot| slot.copy_from_slice(&bytes)));
                }
                return back.appended(tag, Err(unanswered));
            }
            let call = LogAppend { class, frame_bytes, done: back.clone(), tag };
            if let Err(error) = local.append(call, &mut |slot| slot.copy_from_slice(&bytes)) {
                back.appended(tag, Err(error));
            }
        });
        Ok(())
    }

    fn try_read(&self, place: Place, buf: &mut [u8]) -> Option<FrameView> {
        (self.is_near && !self.is_down()).then(|| self.local.try_read(place, buf)).flatten()
    }

    fn read(&self, place: Place, expected_bytes: usize) -> BoxFuture<'_, Result<FrameRead, ReadFailure>> {
        Box::pin(async move {
            self.way().await.map_err(unavailable)?;
            self.local.read(place, expected_bytes).await
        })
    }

    fn read_piece(&self, place: Place, wanted: PieceOfFrame) -> BoxFuture<'_, Result<PieceRead, ReadFailure>> {
        Box::pin(async move {
            self.way().await.map_err(unavailable)?;
            self.local.read_piece(place, wanted).await
        })
    }

    fn walk(&self, range: WalkRange, verify_payload: bool) -> LogWalk {
        self.local.walk(range, verify_payload)
    }

    fn log_floor(&self) -> BoxFuture<'_, Result<LogVector, TargetFailure>> {
        Box::pin(async move {
            self.way().await?;
            let floor = self.local.log_floor().await;
            self.life.stay().await;
            floor
        })
    }

    fn zones(&self) -> Vec<ZoneInfo> {
        self.local.zones()
    }

    fn usage(&self) -> Usage {
        self.local.usage()
    }

    fn open_room(&self, stream: ZoneStream) -> u64 {
        self.local.open_room(stream)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn reset(&self, zone: ZoneIndex, activation: Activation) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(async move {
            self.way().await?;
            let reset = self.local.reset(zone, activation).await;
            self.life.stay().await;
            reset
        })
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(async move {
            self.way().await?;
            self.local.settle().await
        })
    }

    fn finish_reserved_zone(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(async move {
            self.way().await?;
            self.local.finish_reserved_zone().await
        })
    }

    fn finish_open_zones(&self) -> BoxFuture<'_, Result<(), TargetFailure>> {
        Box::pin(async move {
            self.way().await?;
            self.local.finish_open_zones().await
        })
    }
}

/// For an append whose answer is lost.
struct Forgotten;

impl AppendDone for Forgotten {
    fn appended(&self, _tag: u64, _result: Result<Appended, AppendError>) {}
}
