//! A volume as a disk, for a log that stands in it.
//!
//! A log tells a torn tail from damage by the order in which its writes became durable. So a durable write is durable before the next one in every
//! mode of the device: it ends with what the owner gives to settle, which costs nothing where writes are durable at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use disk::{AlignedBuf, Completion, Disk, DiskError, DiskErrorKind, DiskStats, Done, Durability, Operation, ReadMode, Request};

use crate::error::VolumeError;
use crate::volume::Volume;

/// Has all that was written before stand on the medium.
pub type Settle = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), VolumeError>> + Send>> + Send + Sync>;

/// All of a volume. The owner has reserved what it uses of it.
pub struct VolumeDisk {
    volume: Volume,
    settle: Settle,
}

impl VolumeDisk {
    pub fn new(volume: Volume, settle: Settle) -> VolumeDisk {
        VolumeDisk { volume, settle }
    }

    fn refusal(&self, operation: Operation, offset: u64, len: u64) -> Option<DiskError> {
        let kind = match operation {
            Operation::Read | Operation::Write | Operation::Flush => DiskErrorKind::OutOfRange,
            // The owner has reserved the space, and what is new reads as zeros.
            Operation::Allocate | Operation::WriteZeros | Operation::Discard => DiskErrorKind::Failed,
        };
        let is_within = offset.checked_add(len).is_some_and(|end| end <= self.size_bytes());
        if is_within && kind == DiskErrorKind::OutOfRange {
            return None;
        }
        Some(DiskError { kind, device: self.describe().into(), operation, offset, len, cause: None })
    }
}

impl Disk for VolumeDisk {
    fn describe(&self) -> String {
        format!("{}, its volume of {}", self.volume.describe(), self.volume.owner().name())
    }

    fn size_bytes(&self) -> u64 {
        self.volume.byte_count()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        Some(self.size_bytes())
    }

    fn try_read_cached(&self, _offset: u64, _buf: &mut [u8]) -> Result<bool, DiskError> {
        Ok(false)
    }

    fn submit(&self, request: Request, done: Done) {
        let (operation, (offset, len)) = (request.operation(), request.range());
        if let Some(error) = self.refusal(operation, offset, len) {
            return done(Completion { result: Err(error), buf: None });
        }
        let (volume, settle, name) = (self.volume.clone(), self.settle.clone(), self.describe());
        let work = async move {
            let completion = match carry_out(&volume, &settle, request).await {
                Ok(buf) => Completion { result: Ok(()), buf },
                Err(error) => Completion { result: Err(disk_error(name, operation, (offset, len), error)), buf: None },
            };
            done(completion);
        };
        drop(self.volume.env().spawn(work));
    }

    fn stats(&self) -> DiskStats {
        DiskStats::default()
    }
}

async fn carry_out(volume: &Volume, settle: &Settle, request: Request) -> Result<Option<AlignedBuf>, VolumeError> {
    match request {
        Request::Read { offset, buf, mode: ReadMode::Cached } => volume.read(offset, buf.len()).await.map(Some),
        Request::Read { offset, buf, mode: ReadMode::Direct } => volume.read_medium(offset, buf.len()).await.map(Some),
        Request::Write { offset, buf, durability } => {
            volume.write(offset, buf).await?;
            if durability == Durability::Durable {
                settle().await?;
            }
            Ok(Some(AlignedBuf::with_capacity(0)))
        }
        Request::Flush => settle().await.map(|()| None),
        Request::Allocate { .. } | Request::WriteZeros { .. } | Request::Discard { .. } => unreachable!("refused before"),
    }
}

fn disk_error(device: String, operation: Operation, (offset, len): (u64, u64), error: VolumeError) -> DiskError {
    match error {
        VolumeError::Disk { cause, .. } => DiskError { offset, len, ..(*cause).clone() },
        VolumeError::Poisoned { .. } => {
            DiskError { kind: DiskErrorKind::Poisoned, device: device.into(), operation, offset, len, cause: None }
        }
        other => {
            let cause = Some(Arc::new(std::io::Error::other(other.to_string())));
            DiskError { kind: DiskErrorKind::Failed, device: device.into(), operation, offset, len, cause }
        }
    }
}
