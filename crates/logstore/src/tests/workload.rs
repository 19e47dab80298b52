//! Seeded clients, as data: what they do, over which devices.

use super::history::{Ending, History, Upload, Value, whole};
use super::support::{Draw, Rig, key};
use crate::{IndexForm, LogStore};
use disk::CompletionOrder;
use engine::{CompletePart, Condition, ETagMatch, EngineError, ObjectEngine, PartContent, StagedChunks};
use parking_lot::Mutex;
use smallvec::smallvec;
use std::sync::Arc;
use std::time::Duration;

/// What clients do, and over what.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub name: &'static str,
    pub devices: u32,
    pub zones: u64,
    pub zone_bytes: u64,
    pub clients: u64,
    /// Keys of each client.
    pub keys: u64,
    /// Steps of each client in one life of the gateway.
    pub steps: u64,
    /// How many of 16 steps are large objects, and how many concern uploads.
    pub large: u64,
    pub uploads: u64,
    /// Longest small object and longest chunk.
    pub small_bytes: u64,
    pub chunk_bytes: u64,
    /// Longest list of a descriptor or node.
    pub refs_per_list: usize,
    pub checkpoint_entries: usize,
    pub collect_below_free_percent: u8,
    /// Writes take up to so long, and overtake each other; 0: they are done at once.
    pub latency_us: u64,
    /// How saved records are kept; the full form stands for the rig's own.
    pub index: IndexForm,
}

/// Clients and the history that they share.
#[derive(Clone)]
pub struct World {
    pub workload: Workload,
    pub history: Arc<Mutex<History>>,
    /// What a client saw that it must not see.
    pub violation: Arc<Mutex<Option<String>>>,
}

/// One client on its way.
struct Client {
    world: World,
    store: LogStore,
    rig_env: env::Env,
    number: u64,
    draw: Draw,
}

impl World {
    pub async fn new(workload: Workload, seed: u64) -> (World, Rig) {
        let mut rig = Rig::new(seed, workload.devices, workload.zones, workload.zone_bytes).await;
        rig.config.checkpoint_entries = workload.checkpoint_entries;
        rig.config.refs_per_list = workload.refs_per_list;
        rig.config.collect_below_free_percent = workload.collect_below_free_percent;
        if workload.index != IndexForm::Full {
            rig.config.index = workload.index;
        }
        let mut history = History::default();
        for client in 0..workload.clients {
            for number in 0..workload.keys {
                history.objects.insert(name_of(client, number), Default::default());
            }
        }
        let world = World { workload, history: Arc::new(Mutex::new(history)), violation: Arc::default() };
        (world, rig)
    }

    /// Runs all clients to their ends; false if the power went first.
    pub async fn live(&self, rig: &Rig, store: &LogStore, seed: u64) -> bool {
        if self.workload.latency_us > 0 {
            rig.set_order(CompletionOrder::Timed(Duration::from_micros(self.workload.latency_us)));
        }
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..self.workload.clients {
            let client = Client {
                world: self.clone(),
                store: store.clone(),
                rig_env: rig.env.clone(),
                number,
                draw: Draw::new(seed.wrapping_mul(1 + self.workload.clients).wrapping_add(number)),
            };
            clients.spawn(client.run());
        }
        let all = async {
            while let Some(ended) = clients.join_next().await {
                ended.expect("a client's task");
            }
        };
        tokio::select! {
            biased;
            () = rig.mains.off() => false,
            () = all => true,
        }
    }
}

fn name_of(client: u64, number: u64) -> String {
    format!("{number:02}/of-{client}")
}

impl Client {
    async fn run(mut self) {
        for _ in 0..self.world.workload.steps {
            if let Err(violation) = self.step().await {
                *self.world.violation.lock() = Some(violation);
                return;
            }
            // Lets others and the background in.
            match self.draw.below(4) {
                0 => self.rig_env.sleep(Duration::from_micros(self.draw.below(3000))).await,
                _ => tokio::task::yield_now().await,
            }
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        let name = name_of(self.number, self.draw.below(self.world.workload.keys));
        let kind = self.draw.below(16);
        let Workload { large, uploads, .. } = self.world.workload;
        if kind < large {
            return self.put_large(&name).await;
        }
        if kind < large + uploads {
            return self.upload_step(&name).await;
        }
        match self.draw.below(8) {
            0 | 1 => self.delete(&name).await,
            2 => self.swap(&name).await,
            3 => self.check(&name).await,
            _ => self.put(&name, Condition::None).await,
        }
    }

    /// Ends an attempt by its outcome; some errors promise that nothing happened.
    fn end<T>(&self, name: &str, outcome: Result<T, EngineError>) -> Result<Option<T>, String> {
        let mut history = self.world.history.lock();
        let register = history.objects.get_mut(name).expect("a key of the workload");
        match outcome {
            Ok(done) => {
                register.acknowledged();
                Ok(Some(done))
            }
            Err(EngineError::PreconditionFailed | EngineError::NotFound) => {
                register.refused();
                Ok(None)
            }
            // Full: some copies may stand.
            Err(EngineError::Unavailable { .. } | EngineError::Full | EngineError::Busy { .. }) => Ok(None),
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn begin(&self, name: &str, value: Option<Value>) {
        self.world.history.lock().objects.get_mut(name).expect("a key of the workload").begin(value);
    }

    fn new_value(&mut self, most: u64) -> Value {
        let length = self.draw.below(most) as usize;
        self.world.history.lock().value(length)
    }

    fn certain(&self, name: &str) -> Option<Option<Value>> {
        self.world.history.lock().objects[name].certain()
    }

    async fn put(&mut self, name: &str, condition: Condition) -> Result<(), String> {
        let value = self.new_value(self.world.workload.small_bytes);
        self.begin(name, Some(value.clone()));
        let outcome = self.store.put(&key(name), value.attributes(), smallvec![value.bytes.clone()], condition).await;
        self.end(name, outcome).map(|_| ())
    }

    async fn delete(&mut self, name: &str) -> Result<(), String> {
        self.begin(name, None);
        let outcome = self.store.delete(&key(name), Condition::None).await;
        self.end(name, outcome).map(|_| ())
    }

    /// A conditional put whose condition holds, or one whose condition does not.
    async fn swap(&mut self, name: &str) -> Result<(), String> {
        let Some(before) = self.certain(name) else { return Ok(()) };
        let holds = self.draw.below(3) > 0;
        let condition = match (&before, holds) {
            (Some(value), true) => Condition::Match(ETagMatch::OneOf(vec![value.tag()])),
            (Some(_), false) | (None, true) => Condition::Absent,
            (None, false) => Condition::Match(ETagMatch::Any),
        };
        self.put(name, condition).await?;
        let changed = self.certain(name).is_some_and(|after| after != before);
        match !holds && changed {
            true => Err(format!("{name}: a false condition let a write pass over {before:?}")),
            false => Ok(()),
        }
    }

    async fn stage(&mut self, staged: &mut StagedChunks, value: &Value) -> Result<(), EngineError> {
        let chunk_bytes = self.world.workload.chunk_bytes as usize;
        for start in (0..value.bytes.len()).step_by(chunk_bytes) {
            let chunk = value.bytes.slice(start..value.bytes.len().min(start + chunk_bytes));
            self.store.stage_chunk(staged, chunk).await?;
        }
        Ok(())
    }

    async fn put_large(&mut self, name: &str) -> Result<(), String> {
        let value = self.new_value(4 * self.world.workload.chunk_bytes);
        self.begin(name, Some(value.clone()));
        let mut staged = self.store.stage(&key(name), None);
        let outcome = match self.stage(&mut staged, &value).await {
            Ok(()) => self.store.commit(&key(name), staged, value.attributes(), Condition::None).await,
            Err(error) => Err(error),
        };
        self.end(name, outcome).map(|_| ())
    }

    /// Reads one's own key.
    async fn check(&mut self, name: &str) -> Result<(), String> {
        let Some(expected) = self.certain(name) else { return Ok(()) };
        match (self.store.open(&key(name)).await, expected) {
            (Ok(found), Some(value)) if found.info.attributes.etag == value.tag() => {
                let bytes = whole(found.content, found.info.length).await?;
                if bytes == value.bytes { Ok(()) } else { Err(format!("{name}: {value:?} has other bytes")) }
            }
            (Err(EngineError::NotFound), None) => Ok(()),
            (Err(error), expected) => Err(format!("{name}: {error}, expected {expected:?}")),
            (Ok(found), expected) => Err(format!("{name}: {:?}, expected {expected:?}", found.info)),
        }
    }

    /// Goes on with an open upload of this client, or opens one.
    async fn upload_step(&mut self, name: &str) -> Result<(), String> {
        let suffix = format!("/of-{}", self.number);
        let own = |upload: &Upload| upload.ending.is_none() && upload.key.ends_with(&suffix);
        let open: Vec<usize> = {
            let history = self.world.history.lock();
            history.uploads.iter().enumerate().filter(|(_, upload)| own(upload)).map(|(at, _)| at).collect()
        };
        if open.is_empty() || (open.len() < 2 && self.draw.below(3) == 0) {
            return self.create_upload(name).await;
        }
        let at = open[self.draw.below(open.len() as u64) as usize];
        let parts = self.world.history.lock().uploads[at].parts.len() as u64;
        match self.draw.below(6) {
            0 if parts > 0 => self.complete(at).await,
            1 if parts > 1 => self.complete(at).await,
            2 if self.draw.below(2) == 0 => self.abort(at).await,
            _ => self.put_part(at).await,
        }
    }

    async fn create_upload(&mut self, name: &str) -> Result<(), String> {
        self.world.history.lock().unanswered_creations += 1;
        let created = self.store.create_upload(&key(name), Default::default()).await;
        let Ok(id) = created else { return Ok(()) };
        let mut history = self.world.history.lock();
        history.unanswered_creations -= 1;
        history.uploads.push(Upload { key: name.to_owned(), id, parts: Default::default(), ending: None });
        Ok(())
    }

    async fn put_part(&mut self, at: usize) -> Result<(), String> {
        let number = 1 + self.draw.below(3) as u16;
        let small = self.draw.below(2) == 0;
        let most = if small { self.world.workload.small_bytes } else { 3 * self.world.workload.chunk_bytes };
        let value = self.new_value(most);
        let upload = {
            let mut history = self.world.history.lock();
            history.uploads[at].parts.entry(number).or_default().begin(Some(value.clone()));
            history.uploads[at].named()
        };
        let content = match small {
            true => PartContent::Whole(smallvec![value.bytes.clone()]),
            false => {
                let mut staged = self.store.stage(&upload.key, Some((upload.upload, number)));
                if self.stage(&mut staged, &value).await.is_err() {
                    return Ok(());
                }
                PartContent::Staged(staged)
            }
        };
        match self.store.put_part(&upload, number, value.attributes(), content).await {
            Ok(_) => {
                let mut history = self.world.history.lock();
                history.uploads[at].parts.get_mut(&number).expect("begun above").acknowledged();
                Ok(())
            }
            Err(EngineError::Unavailable { .. } | EngineError::Full) => Ok(()),
            Err(error) => Err(format!("part {number} of {upload:?}: {error}")),
        }
    }

    async fn complete(&mut self, at: usize) -> Result<(), String> {
        let upload = self.world.history.lock().uploads[at].clone();
        let named = upload.named();
        let parts = self.store.parts(&named, 0, 100).await.map_err(|error| format!("parts: {error}"))?;
        let mut bytes = Vec::new();
        for part in &parts {
            let allowed = upload.parts[&part.number].allowed();
            let found = allowed.iter().flatten().find(|value| value.tag() == part.attributes.etag);
            bytes.extend_from_slice(&found.ok_or_else(|| format!("{part:?}, allowed {allowed:?}"))?.bytes);
        }
        if parts.is_empty() {
            return Ok(());
        }
        let value = Value { bytes: bytes.into(), ..self.new_value(1) };
        {
            let mut history = self.world.history.lock();
            history.uploads[at].ending = Some(Ending::Completed { value: value.clone(), acknowledged: false });
        }
        self.begin(&upload.key, Some(value.clone()));
        let chosen: Vec<_> = parts.iter().map(|part| CompletePart { number: part.number, order: part.order }).collect();
        let outcome = self.store.complete(&named, chosen.clone(), value.attributes(), Condition::None).await;
        let Some(first) = self.end(&upload.key, outcome)? else { return Ok(()) };
        self.world.history.lock().uploads[at].ending = Some(Ending::Completed { value: value.clone(), acknowledged: true });
        let again = self.store.complete(&named, chosen, value.attributes(), Condition::None).await;
        match again {
            Ok(again) if again == first => Ok(()),
            Err(EngineError::Unavailable { .. }) => Ok(()),
            again => Err(format!("a retried complete answers {again:?}, the first {first:?}")),
        }
    }

    async fn abort(&mut self, at: usize) -> Result<(), String> {
        let named = {
            let mut history = self.world.history.lock();
            history.uploads[at].ending = Some(Ending::Aborted { acknowledged: false });
            history.uploads[at].named()
        };
        match self.store.abort(&named).await {
            Ok(()) => {
                self.world.history.lock().uploads[at].ending = Some(Ending::Aborted { acknowledged: true });
                Ok(())
            }
            Err(EngineError::Unavailable { .. } | EngineError::Full) => Ok(()),
            Err(error) => Err(format!("abort of {named:?}: {error}")),
        }
    }
}
