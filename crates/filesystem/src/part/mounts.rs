//! Where volumes are mounted on this node: noted in a file, so that the next start of the server mounts them again.
//!
//! Mounts outlive the server where the door can keep them: a stop leaves them, and a start takes them over before it mounts anything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use types::FileVolumeId;

use super::volumes::Volumes;
use crate::client::{Client, Opening};
use crate::door::{LeftMount, MountDoor, Mounted};
use crate::meta::MetaSession;
use crate::protocol::{MountInfo, MountOptions, UnmountHow};

/// Between two looks at the mounts: for those that others have ended, and those that are to be mounted again.
const LOOK: Duration = Duration::from_secs(2);
/// How long a node that stops waits for calls under way, and for mounts that end with it and that programs use.
const PAUSE_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_LOOK: Duration = Duration::from_millis(20);
/// How often the keeper is asked again for the mounts that it holds. Then mounts are made without it.
const TAKE_TRIES: usize = 15;
/// Most mounts of a node.
const MAX_MOUNTS: usize = 256;

/// The mounts of this node.
pub struct Mounts {
    env: Env,
    door: Arc<dyn MountDoor>,
    file: PathBuf,
    volumes: Arc<Volumes>,
    /// Held while one begins or ends.
    points: tokio::sync::Mutex<BTreeMap<PathBuf, Point>>,
    /// Mounts that were ended, and that programs may still use.
    ending: Mutex<Vec<Live>>,
    is_paused: AtomicBool,
    /// The keeper has given what outlived the process before.
    is_taken: AtomicBool,
}

struct Point {
    noted: Noted,
    /// None while it is to be mounted again.
    live: Option<Live>,
}

/// A mount that is served.
struct Live {
    mounted: Box<dyn Mounted>,
    client: Arc<Client>,
}

impl Live {
    fn is_over(&self) -> bool {
        self.mounted.is_over()
    }

    /// Whether it is a mount of its folder. One that others have unmounted may live on: containers have copies of the mounts that they began with.
    fn is_in_place(&self) -> bool {
        !self.is_over() && self.mounted.is_in_place()
    }
}

/// What the file says of a mount, and what the next process finds with one that outlives this one. The volume's name may come to mean another one while the server is stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noted {
    point: PathBuf,
    id: u32,
    name: String,
    options: MountOptions,
    /// Of an exclusive mount: the number of its session, which keeps others out until it has ended.
    session: Option<u64>,
}

impl Mounts {
    /// Reads what was mounted. Nothing is mounted yet.
    pub fn load(env: &Env, door: Arc<dyn MountDoor>, file: PathBuf, volumes: Arc<Volumes>) -> Result<Mounts, String> {
        let noted = read(&file).map_err(|error| {
            format!("reading {}, which names the mounts: {error}. Without it nothing is mounted: move it away", file.display())
        })?;
        let point = |noted: Noted| (noted.point.clone(), Point { noted, live: None });
        let points = tokio::sync::Mutex::new(noted.into_iter().map(point).collect());
        let (ending, is_paused, is_taken) = (Mutex::default(), AtomicBool::new(false), AtomicBool::new(false));
        Ok(Mounts { env: env.clone(), door, file, volumes, points, ending, is_paused, is_taken })
    }

    /// Goes on serving the mounts that outlived the process before. Their calls wait for their trees by themselves. False where it is to be tried again.
    async fn take_over_once(&self) -> bool {
        let left = match self.door.left() {
            Ok(left) => left,
            Err(reason) => {
                tracing::warn!(reason, "mounts of the server before are not served yet");
                return false;
            }
        };
        let mut points = self.points.lock().await;
        for left in left {
            let Ok(noted) = serde_json::from_slice::<Noted>(left.label()) else {
                tracing::warn!("a mount of another version of the server is ended: its calls fail");
                left.give_up();
                continue;
            };
            // Of one that was ended while programs used it, nothing is noted.
            let is_wanted = !noted.options.is_kept || points.contains_key(&noted.point);
            let is_ending = !left.is_in_place() || !is_wanted;
            let live = match self.resume(&noted, left) {
                Ok(live) => live,
                Err(reason) => {
                    tracing::warn!(point = %noted.point.display(), reason, "a mount of the server before is ended: its calls fail");
                    continue;
                }
            };
            tracing::info!(point = %noted.point.display(), volume = noted.name, "a mount of the server before is served again");
            let before = match is_ending {
                true => Some(live),
                false => points.insert(noted.point.clone(), Point { noted, live: Some(live) }).and_then(|before| before.live),
            };
            self.ending.lock().extend(before);
        }
        true
    }

    fn resume(&self, noted: &Noted, left: Box<dyn LeftMount>) -> Result<Live, String> {
        let record = left.record().map_err(|error| error.to_string());
        match record.and_then(|record| self.volumes.resume(FileVolumeId(noted.id), record)) {
            Ok(client) => {
                let mounted = left.resume(&client, &noted.name, &noted.options)?;
                Ok(Live { mounted, client })
            }
            Err(reason) => {
                left.give_up();
                Err(reason)
            }
        }
    }

    /// Mounts a volume from now on.
    pub async fn mount(&self, name: &str, point: PathBuf, options: MountOptions) -> Result<(), String> {
        let mut points = self.points.lock().await;
        if points.get(&point).is_some_and(|found| found.live.as_ref().is_none_or(Live::is_in_place)) {
            return Err(format!("{} is a mount already: `trilith mount --ls` shows which", point.display()));
        }
        if points.len() >= MAX_MOUNTS {
            return Err(format!("a node has at most {MAX_MOUNTS} mounts: end one of them with `trilith umount`"));
        }
        let record = self.volumes.find(name).await?;
        let noted = Noted { point: point.clone(), id: record.id.0, name: name.to_owned(), options, session: None };
        let live = Some(self.begin(&noted).await?);
        let before = points.insert(point.clone(), Point { noted, live });
        self.ending.lock().extend(before.and_then(|before| before.live));
        if let Err(error) = self.note(&points) {
            if let Some(live) = points.remove(&point).and_then(|point| point.live) {
                let ended = live.mounted.unmount(UnmountHow::Lazy);
                tracing::debug!(?ended, "a mount that could not be noted was ended");
                self.ending.lock().push(live);
            }
            return Err(format!("writing {}: {error}", self.file.display()));
        }
        Ok(())
    }

    async fn begin(&self, noted: &Noted) -> Result<Live, String> {
        self.door.clear(&noted.point)?;
        let record = self.door.record().map_err(|error| format!("making the record of a mount: {error}"))?;
        let (id, is_exclusive) = (FileVolumeId(noted.id), noted.options.is_exclusive);
        if let Some(before) = noted.session {
            // Its process is gone, and so is its mount: it would be in the way of the next one until it was silent for long enough.
            self.volumes.end_session(id, MetaSession(before)).await?;
        }
        let client = self.volumes.client(id, Opening { record: Some(record), is_exclusive }).await?;
        let label = serde_json::to_vec(noted).map_err(|error| error.to_string())?;
        match self.door.mount(client.clone(), &noted.name, &noted.point, &noted.options, label) {
            Ok(mounted) => Ok(Live { mounted, client }),
            Err(reason) => {
                if let Err(error) = client.close().await {
                    tracing::debug!(%error, "the session of a mount that did not begin stays for a while");
                }
                Err(reason)
            }
        }
    }

    /// Ends a mount for good.
    pub async fn unmount(&self, point: &Path, how: UnmountHow) -> Result<(), String> {
        let mut points = self.points.lock().await;
        let found = points.get(point);
        let found = found
            .ok_or_else(|| format!("{} is no mount of this node: `trilith mount --ls` shows which are", point.display()))?;
        if let Some(live) = found.live.as_ref().filter(|live| !live.is_over()) {
            live.mounted.unmount(how)?;
        }
        if let Some(live) = points.remove(point).and_then(|point| point.live) {
            self.ending.lock().push(live);
        }
        let noted = self.note(&points);
        noted.map_err(|error| {
            format!("{} is unmounted until the next start: writing {}: {error}", point.display(), self.file.display())
        })
    }

    pub async fn list(&self) -> Vec<MountInfo> {
        let points = self.points.lock().await;
        let info = |point: &Point| MountInfo {
            point: point.noted.point.clone(),
            volume: point.noted.name.clone(),
            options: point.noted.options,
            is_mounted: point.live.is_some(),
        };
        points.values().map(info).collect()
    }

    /// Where a volume is mounted.
    pub async fn points_of(&self, id: FileVolumeId) -> Vec<PathBuf> {
        let points = self.points.lock().await;
        points.values().filter(|point| point.noted.id == id.0).map(|point| point.noted.point.clone()).collect()
    }

    /// As [`Mounts::take_over_once`], once, when the node starts.
    pub async fn take_over(&self) {
        let is_taken = self.take_over_once().await;
        self.is_taken.store(is_taken, Ordering::Release);
    }

    /// What the keeper did not give at the start is asked for again, before anything is mounted in its place.
    async fn take_over_late(&self) {
        for _ in 0..TAKE_TRIES {
            if self.is_taken.load(Ordering::Acquire) || self.is_paused.load(Ordering::Acquire) {
                return;
            }
            self.env.sleep(LOOK).await;
            self.take_over().await;
        }
    }

    /// For as long as the node lives: mounts again what was mounted before the start, and forgets what others have unmounted.
    pub async fn keep(&self) {
        self.take_over_late().await;
        let mut told = BTreeSet::new();
        loop {
            let mut points = self.points.lock().await;
            if self.is_paused.load(Ordering::Acquire) {
                return;
            }
            self.end_without_session(&mut points);
            let over: Vec<PathBuf> = points
                .iter()
                .filter(|(_, point)| point.live.as_ref().is_some_and(|live| !live.is_in_place()))
                .map(|(at, _)| at.clone())
                .collect();
            for at in &over {
                let live = points.remove(at).and_then(|point| point.live);
                self.ending.lock().extend(live);
            }
            if !over.is_empty()
                && let Err(error) = self.note(&points)
            {
                tracing::warn!(%error, file = %self.file.display(), "mounts that have ended are still noted");
            }
            let mut has_begun = false;
            for point in points.values_mut().filter(|point| point.live.is_none()) {
                match self.begin(&point.noted).await {
                    Ok(live) => {
                        point.live = Some(live);
                        has_begun = true;
                    }
                    Err(reason) if told.insert(reason.clone()) => {
                        tracing::warn!(point = %point.noted.point.display(), reason, "what was mounted is not mounted yet");
                    }
                    Err(_) => {}
                }
            }
            if has_begun && let Err(error) = self.note(&points) {
                tracing::warn!(%error, file = %self.file.display(), "the sessions of mounts are not noted");
            }
            drop(points);
            self.has_ending();
            self.door.look();
            self.env.sleep(LOOK).await;
        }
    }

    /// A mount whose session the tree has ended serves nothing any more. One that is kept begins anew.
    fn end_without_session(&self, points: &mut BTreeMap<PathBuf, Point>) {
        for point in points.values_mut() {
            let Some(live) = point.live.take_if(|live| live.client.has_ended() && !live.is_over()) else { continue };
            let at = point.noted.point.display();
            tracing::warn!(point = %at, "the tree has ended the session of a mount that was silent for too long: its calls fail");
            if let Err(reason) = live.mounted.unmount(UnmountHow::Force) {
                tracing::warn!(point = %at, reason, "a mount without a session is still there");
            }
            self.ending.lock().push(live);
        }
        points.retain(|_, point| point.live.is_some() || point.noted.options.is_kept);
    }

    /// Forgets the mounts that were ended and that nothing uses any more; whether some are left.
    fn has_ending(&self) -> bool {
        let mut ending = self.ending.lock();
        ending.retain(|live| !live.is_over());
        !ending.is_empty()
    }

    /// Leaves the mounts to the next process, which is sent the calls that come meanwhile. Those that can't outlive this one are ended; the next start
    /// mounts those again that are kept.
    pub async fn pause(&self) {
        let mut points = self.points.lock().await;
        self.is_paused.store(true, Ordering::Release);
        let ending = std::mem::take(&mut *self.ending.lock());
        let live = points.values_mut().filter_map(|point| point.live.take()).chain(ending);
        let (left, ended): (Vec<Live>, Vec<Live>) = live.partition(|live| live.mounted.stop());
        for live in &ended {
            if let Err(reason) = live.mounted.unmount(UnmountHow::Lazy) {
                tracing::warn!(reason, "a mount was not ended");
            }
        }
        let until = self.env.now() + PAUSE_PATIENCE;
        let is_done = || left.iter().all(|live| live.mounted.is_idle()) && ended.iter().all(Live::is_over);
        while !is_done() && self.env.now() < until {
            self.env.sleep(PAUSE_LOOK).await;
        }
        let abandoned: usize = left.iter().map(|live| live.mounted.abandon()).sum();
        if abandoned > 0 {
            tracing::info!(abandoned, "calls on mounts wait for the next start");
        }
    }

    fn note(&self, points: &BTreeMap<PathBuf, Point>) -> io::Result<()> {
        let noted = |Point { noted, live }: &Point| {
            let is_exclusive = noted.options.is_exclusive;
            let session = live.as_ref().filter(|_| is_exclusive).map(|live| live.client.session().0);
            Noted { session: session.or(noted.session), ..noted.clone() }
        };
        let noted: Vec<Noted> = points.values().filter(|point| point.noted.options.is_kept).map(noted).collect();
        let temporary = self.file.with_extension("new");
        std::fs::write(&temporary, serde_json::to_vec_pretty(&noted).map_err(io::Error::other)?)?;
        std::fs::File::open(&temporary)?.sync_all()?;
        std::fs::rename(&temporary, &self.file)?;
        // Or a power cut could forget a mount that was answered, or bring one back.
        self.file.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
    }
}

fn read(file: &Path) -> io::Result<Vec<Noted>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
