//! Where images are served: noted in a file, so that the next start of the server serves them again.

use super::opened::{Opened, Use};
use crate::door::{Door, Offered, OpenImage};
use crate::protocol::{ListenAt, Serving};
use env::Env;
use futures_util::future::join_all;
use net::BoxFuture;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use types::ImageId;

/// Between two attempts to serve again what was served before the start.
const RETRY: Duration = Duration::from_secs(2);
/// Most places, and most images of one place.
const MAX_PLACES: usize = 256;

/// The places.
pub struct Served {
    door: Arc<dyn Door>,
    file: PathBuf,
    opened: Arc<Opened>,
    /// Held while one is opened or closed.
    places: tokio::sync::Mutex<BTreeMap<ListenAt, Place>>,
    count: std::sync::atomic::AtomicUsize,
}

struct Place {
    images: Vec<NotedImage>,
    /// Of its images, while the place is open.
    uses: Vec<Use>,
}

/// What the file says of a place.
#[derive(Serialize, Deserialize)]
struct Noted {
    at: ListenAt,
    images: Vec<NotedImage>,
}

/// An image that is served. Its name may come to mean another one while the server is stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct NotedImage {
    id: u64,
    name: String,
}

impl Served {
    /// Reads what was served. Nothing is opened yet.
    pub fn load(door: Arc<dyn Door>, file: PathBuf, opened: Arc<Opened>) -> Result<Served, String> {
        let noted = read(&file).map_err(|error| {
            format!("reading {}, which names the places where images are served: {error}. Without it nothing is served: move it away", file.display())
        })?;
        let place = |noted: Noted| (noted.at, Place { images: noted.images, uses: Vec::new() });
        let places: BTreeMap<ListenAt, Place> = noted.into_iter().map(place).collect();
        let count = places.len().into();
        Ok(Served { door, file, opened, places: tokio::sync::Mutex::new(places), count })
    }

    pub fn place_count(&self) -> usize {
        self.count.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Serves images at a place from now on.
    pub async fn serve(&self, at: ListenAt, images: Vec<String>) -> Result<(), String> {
        let mut places = self.places.lock().await;
        if places.contains_key(&at) {
            return Err(format!("{at} is served already: `trilith nbd --ls` shows what, `trilith nbd --end` ends it"));
        }
        if places.len() >= MAX_PLACES || images.len() > MAX_PLACES {
            return Err(format!("a node serves at most {MAX_PLACES} places with as many images each"));
        }
        let mut noted = Vec::new();
        for name in images {
            noted.push(NotedImage { id: self.opened.find(&name).await?.id.0, name });
        }
        let place = Place { uses: self.open(&at, &noted).await?, images: noted };
        places.insert(at.clone(), place);
        if let Err(error) = self.note(&places) {
            self.end_place(&at, places.remove(&at).expect("it was just put there")).await;
            return Err(format!("writing {}: {error}", self.file.display()));
        }
        Ok(())
    }

    /// Serves nothing there any more.
    pub async fn end(&self, at: &ListenAt) -> Result<(), String> {
        let (place, noted) = {
            let mut places = self.places.lock().await;
            let place =
                places.remove(at).ok_or_else(|| format!("nothing is served at {at}: `trilith nbd --ls` shows what is"))?;
            (place, self.note(&places))
        };
        self.end_place(at, place).await;
        noted.map_err(|error| format!("{at} is closed until the next start: writing {}: {error}", self.file.display()))
    }

    /// What is served.
    pub async fn list(&self) -> Vec<Serving> {
        let places = self.places.lock().await;
        let serving = |(at, place): (&ListenAt, &Place)| Serving {
            at: at.clone(),
            images: place.images.iter().map(|image| image.name.clone()).collect(),
            is_open: !place.uses.is_empty(),
            clients: self.door.clients(at),
        };
        places.iter().map(serving).collect()
    }

    /// Where an image is served.
    pub async fn places_of(&self, image: &str) -> Vec<ListenAt> {
        let places = self.places.lock().await;
        places
            .iter()
            .filter(|(_, place)| place.images.iter().any(|noted| noted.name == image))
            .map(|(at, _)| at.clone())
            .collect()
    }

    /// Opens what was served before the start, and goes on trying where that fails.
    pub async fn serve_again(&self, env: &Env) {
        let mut told = std::collections::BTreeSet::new();
        loop {
            let mut places = self.places.lock().await;
            let mut are_all_open = true;
            for (at, place) in places.iter_mut().filter(|(_, place)| place.uses.is_empty()) {
                match self.open(at, &place.images).await {
                    Ok(uses) => place.uses = uses,
                    Err(reason) => {
                        are_all_open = false;
                        if told.insert(reason.clone()) {
                            tracing::warn!(%at, %reason, "images that were served are not served yet");
                        }
                    }
                }
            }
            drop(places);
            if are_all_open {
                return;
            }
            env.sleep(RETRY).await;
        }
    }

    /// Closes all places; the next start opens them again.
    pub async fn pause(&self) {
        let mut places = self.places.lock().await;
        join_all(places.keys().map(|at| self.door.close(at, false))).await;
        // Their images are closed all at once afterwards.
        places.values_mut().for_each(|place| place.uses.clear());
    }

    async fn open(&self, at: &ListenAt, images: &[NotedImage]) -> Result<Vec<Use>, String> {
        let mut uses = Vec::new();
        let mut failed = None;
        for noted in images {
            match self.opened.acquire(&noted.name).await {
                Ok(used) => {
                    let is_meant = used.image.image().id().0 == noted.id;
                    uses.push(used);
                    if !is_meant {
                        failed = Some(format!("{} is another image now: end the place, and serve it anew", noted.name));
                    }
                }
                Err(reason) => failed = Some(reason),
            }
            if failed.is_some() {
                break;
            }
        }
        let offered = PlaceImages { images: images.to_vec(), opened: self.opened.clone() };
        let outcome = failed.map_or_else(|| self.door.open(at, Arc::new(offered)), Err);
        if let Err(reason) = outcome {
            for used in uses {
                self.opened.release(used).await;
            }
            return Err(reason);
        }
        Ok(uses)
    }

    async fn end_place(&self, at: &ListenAt, place: Place) {
        self.door.close(at, true).await;
        for used in place.uses {
            self.opened.release(used).await;
        }
    }

    fn note(&self, places: &BTreeMap<ListenAt, Place>) -> io::Result<()> {
        self.count.store(places.len(), std::sync::atomic::Ordering::Relaxed);
        let noted: Vec<Noted> =
            places.iter().map(|(at, place)| Noted { at: at.clone(), images: place.images.clone() }).collect();
        let temporary = self.file.with_extension("new");
        std::fs::write(&temporary, serde_json::to_vec_pretty(&noted).map_err(io::Error::other)?)?;
        std::fs::File::open(&temporary)?.sync_all()?;
        std::fs::rename(&temporary, &self.file)
    }
}

fn read(file: &Path) -> io::Result<Vec<Noted>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The images of a place, for its clients.
struct PlaceImages {
    images: Vec<NotedImage>,
    opened: Arc<Opened>,
}

impl Offered for PlaceImages {
    fn images(&self) -> Vec<String> {
        self.images.iter().map(|image| image.name.clone()).collect()
    }

    fn open<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<OpenImage>, String>> {
        Box::pin(async move {
            let noted = self.images.iter().find(|image| image.name == name);
            let noted = noted.ok_or_else(|| format!("{name} is not served here"))?;
            self.opened.shared(ImageId(noted.id), name).await
        })
    }
}
