//! The store's beginning, which takes space only with the first mutation, and the superblock.

use std::sync::Arc;

use ::engine::EngineError;

use super::{Inner, log_place, refusal, unavailable};
use crate::blocks::LogicalVolume;
use crate::content::VolumeIndex;
use crate::log::PgLog;
use crate::name::Opseq;
use crate::record::Mutation;
use crate::superblock::Superblock;
use types::limits::BLOCK_BYTES;

/// The number of a log's first record.
pub const FIRST_OPSEQ: Opseq = Opseq(1);

impl Inner {
    /// Gets the log its space, if it has none.
    pub(super) async fn found(self: &Arc<Self>) -> Result<(), EngineError> {
        self.check_usable()?;
        if self.log.get().is_some() {
            return Ok(());
        }
        let _turn = self.growing.lock().await;
        if self.log.get().is_some() {
            return Ok(());
        }
        self.state.lock().check_writable()?;
        (self.founding.claim)().await.map_err(|reason| EngineError::DeviceMissing { reason })?;
        let there = self.volumes.all.iter().enumerate().filter_map(|(index, volume)| Some((index, volume.as_ref()?)));
        let roomiest = there.max_by_key(|(_, volume)| volume.room_bytes());
        let (index, home) = roomiest.ok_or_else(|| unavailable("this server has no device".to_owned()))?;
        let LogicalVolume::Local(device) = home.clone() else { unreachable!("a group has its log from the start") };
        let place = log_place(home);
        let units = (place.fixed_blocks() * BLOCK_BYTES as u64).div_ceil(home.unit_bytes());
        if let Err(error) = home.reserve(0, units * home.unit_bytes()).await {
            give_back_all(home).await;
            return Err(refusal(&error));
        }
        let uuids = self.volumes.all.iter().flatten().map(LogicalVolume::uuid).collect();
        let superblock = Superblock::first(place.segment_bytes, uuids);
        self.put_superblock_on(home, &superblock).await?;
        let opened = PgLog::open(&self.env, self.volumes.clone(), device, place, FIRST_OPSEQ, &mut |_, _| {}).await;
        let log = opened.map_err(|error| self.fail(&error))?;
        {
            let mut state = self.state.lock();
            let index = VolumeIndex(index as u16);
            state.pg.set_home(index);
            let space = state.pg.space(index).expect("its device is there");
            space.fix(place.fixed_blocks());
            (0..units as u32).for_each(|unit| space.add_unit(unit));
            state.superblock = Some(superblock);
        }
        assert!(self.log.set(log).is_ok(), "a store is founded once");
        Ok(())
    }

    /// A start goes on from what it found: what it revoked is logged before anything else.
    pub(super) async fn begin(self: &Arc<Self>, revoked: Vec<Opseq>) {
        if self.obstacle.is_some() || self.log.get().is_none() {
            return;
        }
        let begun = async {
            // What was found is durable behind it, in every mode of the device.
            self.volumes.settle().await.map_err(|error| self.fail(&error))?;
            if !revoked.is_empty() {
                env::mark("volume engine: puts were revoked");
                tracing::warn!(count = revoked.len(), "puts that were not answered before the last end have left no content");
                self.commit(Mutation::Revoke { revoked }, Default::default(), None).await?;
            }
            Ok::<(), EngineError>(())
        };
        if let Err(error) = begun.await {
            self.fail(&error);
        }
    }

    /// Writes a superblock. It is durable behind it, and so is all that was written before.
    pub(super) async fn put_superblock(&self, superblock: &Superblock) -> Result<(), EngineError> {
        self.put_superblock_on(&self.home(), superblock).await
    }

    async fn put_superblock_on(&self, home: &LogicalVolume, superblock: &Superblock) -> Result<(), EngineError> {
        let block = superblock.encode(&home.uuid());
        let offset = superblock.slot() * BLOCK_BYTES as u64;
        home.write(offset, block).await.map_err(|error| self.fail(&error))?;
        home.flush().await.map_err(|error| self.fail(&error))
    }
}

/// Nothing stands in a volume: its units go back.
pub async fn give_back_all(volume: &LogicalVolume) {
    for unit in volume.units() {
        if let Err(error) = volume.give_back(unit).await {
            tracing::warn!(device = volume.device().0, unit, %error, "space was not given back");
        }
    }
}
