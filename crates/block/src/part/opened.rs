//! The images that this node has open, each for as long as something here uses it.

use super::cluster::ClusterStores;
use super::placing::ClusterPlacement;
use super::records::{Records, view_of};
use super::tenure::{TENURE, TENURE_OVER};
use crate::door::OpenImage;
use crate::image::{Ancestors, Image, Outside, Placement};
use crate::stores::{Admission, StoreError};
use futures_util::future::join_all;
use manager::ImageRecord;
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use subsystem::Surroundings;
use tokio::sync::Notify;
use types::{DeviceId, ImageId, NodeId, Token};

/// How long the manager may take to note that an image is closed.
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);

/// Images that are open here.
pub struct Opened {
    pub(super) around: Surroundings,
    pub(super) stores: Arc<ClusterStores>,
    pub(super) placement: Arc<ClusterPlacement>,
    outside: Outside,
    seats: Mutex<BTreeMap<ImageId, Arc<Seat>>>,
    open: Mutex<BTreeMap<ImageId, Arc<OpenImage>>>,
    /// An image was opened: its tenure begins.
    pub(super) begun: Notify,
}

/// Of an image that something uses, or waits for.
#[derive(Default)]
struct Seat {
    /// Held while the image is opened or closed.
    sitting: tokio::sync::Mutex<Sitting>,
}

#[derive(Default)]
struct Sitting {
    image: Option<Arc<OpenImage>>,
    users: usize,
    /// The seat is not in the list any more.
    is_over: bool,
}

/// The use of an image. [`Opened::release`] ends it.
pub struct Use {
    pub image: Arc<OpenImage>,
}

impl Opened {
    pub fn new(
        around: Surroundings,
        stores: Arc<ClusterStores>,
        placement: Arc<ClusterPlacement>,
        ancestors: Arc<dyn Ancestors>,
    ) -> Opened {
        let outside = Outside {
            env: around.env.clone(),
            stores: stores.clone(),
            registry: Arc::new(Records { manager: around.manager.clone() }),
            placement: placement.clone(),
            ancestors,
        };
        let (seats, open, begun) = (Mutex::default(), Mutex::default(), Notify::new());
        Opened { around, stores, placement, outside, seats, open, begun }
    }

    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Whether something here uses an image, opens or closes it.
    pub(super) fn is_used(&self, id: ImageId) -> bool {
        self.seats.lock().contains_key(&id)
    }

    pub fn open_images(&self) -> Vec<Arc<OpenImage>> {
        self.open.lock().values().cloned().collect()
    }

    /// What a holder on this node works with.
    pub fn outside(&self) -> Outside {
        self.outside.clone()
    }

    /// An image by its name. The manager's state here is as new as the leader's when this began.
    pub async fn find(&self, name: &str) -> Result<Arc<ImageRecord>, String> {
        self.around.manager.fresh().await.map_err(|error| error.to_string())?;
        let state = self.around.manager.snapshot();
        state.image_named(name).cloned().ok_or_else(|| format!("there is no image {name}: `trilith image ls` lists them"))
    }

    /// Opens an image, or shares the one that is open here.
    pub async fn acquire(&self, name: &str) -> Result<Use, String> {
        let id = self.find(name).await?.id;
        loop {
            let seat = self.seats.lock().entry(id).or_default().clone();
            let mut sitting = seat.sitting.lock().await;
            if sitting.is_over {
                continue;
            }
            let used = self.sit(&mut sitting, name).await;
            self.leave_if_unused(id, &mut sitting);
            return used;
        }
    }

    async fn sit(&self, sitting: &mut Sitting, name: &str) -> Result<Use, String> {
        if let Some(image) = sitting.image.as_ref().filter(|image| !image.image().has_ended()) {
            sitting.users += 1;
            return Ok(Use { image: image.clone() });
        }
        // The record may have changed during the wait for the seat.
        let record = self.find(name).await?;
        let image = Arc::new(OpenImage::new(name.to_owned(), Box::pin(self.open(&record)).await?));
        // Uses of one that has ended are given back too.
        sitting.users += 1;
        sitting.image = Some(image.clone());
        self.open.lock().insert(record.id, image.clone());
        self.begun.notify_one();
        self.attend(&image);
        Ok(Use { image })
    }

    /// A use of an image ends.
    pub async fn release(&self, used: Use) {
        let id = used.image.image().id();
        let Some(seat) = self.seats.lock().get(&id).cloned() else { return };
        let mut sitting = seat.sitting.lock().await;
        // Uses that are left when all are closed are none of a later seat.
        if sitting.is_over || sitting.users == 0 {
            return;
        }
        sitting.users -= 1;
        if sitting.users == 0
            && let Some(image) = sitting.image.take()
        {
            self.open.lock().remove(&id);
            self.close(image.image()).await;
        }
        self.leave_if_unused(id, &mut sitting);
    }

    fn leave_if_unused(&self, id: ImageId, sitting: &mut Sitting) {
        if sitting.users == 0 {
            sitting.is_over = true;
            self.seats.lock().remove(&id);
        }
    }

    /// An image that a place uses, for a client that lets go of it before the place does. A holder that has ended is followed by another.
    pub async fn shared(&self, id: ImageId, name: &str) -> Result<Arc<OpenImage>, String> {
        let known = self.open.lock().get(&id).cloned();
        match known {
            None => Err(format!("{name} is not open here any more")),
            Some(image) if !image.image().has_ended() => Ok(image),
            Some(_) => {
                let used = self.acquire(name).await?;
                let image = used.image.clone();
                self.release(used).await;
                if image.image().id() == id { Ok(image) } else { Err(format!("{name} is another image now")) }
            }
        }
    }

    pub async fn close_all(&self) {
        let seats: Vec<(ImageId, Arc<Seat>)> = self.seats.lock().iter().map(|(id, seat)| (*id, seat.clone())).collect();
        let close = |(id, seat): (ImageId, Arc<Seat>)| async move {
            let mut sitting = seat.sitting.lock().await;
            sitting.users = 0;
            if let Some(image) = sitting.image.take() {
                self.open.lock().remove(&id);
                self.close(image.image()).await;
            }
            self.leave_if_unused(id, &mut sitting);
        };
        join_all(seats.into_iter().map(close)).await;
    }

    /// The other node that has an image open, if there is one and it is part of the cluster and answers.
    pub fn holder_elsewhere(&self, record: &ImageRecord) -> Option<NodeId> {
        let holder = record.holder.filter(|holder| !holder.is_keeper);
        holder.map(|holder| holder.node).filter(|node| *node != self.around.me && !self.is_gone(*node))
    }

    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.around.manager.snapshot().node(node).is_none() || (self.around.silent)().contains(&node)
    }

    async fn open(&self, record: &ImageRecord) -> Result<Image, String> {
        let (manager, me) = (&self.around.manager, self.around.me);
        if let Some(node) = self.holder_elsewhere(record) {
            let name = manager.snapshot().node(node).map_or_else(|| node.to_string(), |node| node.name.clone());
            return Err(format!(
                "{} is open on node {name}. Ask that node; if it is gone for good: trilith image unlock --force {}",
                record.name, record.name
            ));
        }
        self.check_enough_answer(record)?;
        // The holder is this node's former process, or its node is gone. A keeper makes way.
        let holder = record.holder.filter(|holder| !holder.is_keeper);
        let expected = holder.map(|_| record.token);
        let noted = self.around.env.now();
        let opened = manager.open_image(record.id, me, expected).await.map_err(|error| error.to_string())?;
        if holder.is_some_and(|holder| holder.node == me) {
            env::mark("images: taken over from a former process");
        }
        let former = holder.filter(|holder| holder.node != me);
        if let Some(former) = former {
            tracing::warn!(
                image = record.name,
                node = former.node.0,
                "the image is taken over from a node that does not answer"
            );
            env::mark("images: taken over from another node");
        }
        // The former holder may be there all the same, or was unlocked just now, and answers what needs no store until it knows.
        if former.is_some() || (holder.is_none() && !record.is_settled) {
            self.around.env.sleep(TENURE_OVER).await;
        }
        let image = self.take_over(&opened).await?;
        image.extend_tenure(noted + TENURE);
        Ok(image)
    }

    /// A holder is not ended for one that could not read the image.
    pub(super) fn check_enough_answer(&self, record: &ImageRecord) -> Result<(), String> {
        let in_sync: Vec<DeviceId> =
            record.devices.iter().filter(|used| used.out_since.is_none()).map(|used| used.device).collect();
        let silent = self.placement.silent_among(&in_sync);
        let Some((_, node)) = silent.first() else { return Ok(()) };
        if record.survives(silent.iter().map(|(device, _)| (*device, self.placement.host_of(*device)))) {
            return Ok(());
        }
        env::mark("images: an image that waits for a silent node");
        Err(format!(
            "parts of {} may be on node {node} alone, which does not answer: it can be opened when that is back",
            record.name
        ))
    }

    /// The image that the record was just opened for. Where that fails, the record is closed again.
    pub(super) async fn take_over(&self, opened: &Arc<ImageRecord>) -> Result<Image, String> {
        match Image::open(self.outside(), view_of(opened)).await {
            Ok(image) => Ok(image),
            Err(error) => {
                self.give_back(opened.id, opened.token, opened.is_settled).await;
                Err(error.to_string())
            }
        }
    }

    /// What runs beside an open image: it finishes what an earlier holder left undone, then looks after its copies.
    fn attend(&self, image: &Arc<OpenImage>) {
        let image = image.clone();
        let beside: BoxFuture<'static, ()> = Box::pin(async move {
            if let Err(error) = image.image().tidy().await {
                tracing::warn!(image = image.name(), %error, "blobs that no snapshot needs are not freed before the image is opened again");
            }
            image.image().keep().await;
        });
        drop(self.around.env.spawn(beside));
    }

    /// The image was unlocked just now: its holder is over when this returns, also if it is this node.
    pub async fn end(&self, unlocked: &ImageRecord) -> Result<(), String> {
        let over = self.around.env.now() + TENURE_OVER;
        self.around.manager.fresh().await.map_err(|error| error.to_string())?;
        let admission = Admission { image: unlocked.id, token: unlocked.token, session: 0, epoch: unlocked.epoch };
        let in_sync = unlocked.devices.iter().filter(|used| used.out_since.is_none()).map(|used| used.device);
        let entered =
            join_all(in_sync.map(|device| async move { (device, self.stores.enter_new(device, admission).await) })).await;
        let is_left = |entered: &Result<_, StoreError>| !matches!(entered, Ok(_) | Err(StoreError::Superseded));
        let left: Vec<_> = entered.into_iter().filter(|(_, entered)| is_left(entered)).collect();
        if let Some((device, Err(error))) = left.first()
            && !unlocked.survives(left.iter().map(|(device, _)| (*device, self.outside.placement.host_of(*device))))
        {
            return Err(format!(
                "{} has no holder any more, but device {device} was not told ({error}): the former holder's requests may reach it until another \
                 node opens the image",
                unlocked.name
            ));
        }
        // Copies refuse its writes by now. What it answers without a store, and reads from devices that were not told, end with its tenure.
        self.around.env.sleep_until(over).await;
        Ok(())
    }

    pub(super) async fn close(&self, image: &Image) {
        if image.close().await.is_ok() {
            self.give_back(image.id(), image.token(), image.is_settled()).await;
        }
    }

    /// Without an answer in time a keeper of this node takes the image over, and closes it.
    async fn give_back(&self, id: ImageId, token: Token, is_settled: bool) {
        let closing = self.around.manager.close_image(id, token, is_settled);
        let outcome = tokio::select! {
            closed = closing => closed.map(drop).map_err(|error| error.to_string()),
            () = self.around.env.sleep(CLOSE_PATIENCE) => Err("no leader of the managers answered in time".to_owned()),
        };
        if let Err(reason) = outcome {
            tracing::warn!(image = id.0, %reason, "the image stays noted as open on this node");
        }
    }
}
