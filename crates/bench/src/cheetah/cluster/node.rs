//! A node of a cluster in one process: a thread with a runtime of its own, and a device. Ending it ends all of its tasks at once.

use super::wire::{Line, Wire};
use crate::cheetah::tap::Tap;
use crate::cheetah::volume_engine::open_device;
use crate::runtime::on_core;
use crate::usage;
use anyhow::Context;
use device::{SyncMode, VolumeOwner};
use disk::Disk;
use engine::ObjectEngine;
use env::Env;
use manager::Manager;
use net::Caller;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use types::NodeId;
use volstore::{Around, Objects};

/// A node.
pub struct Node {
    pub id: NodeId,
    /// Of its thread.
    pub runtime: Handle,
    pub engine: Arc<dyn ObjectEngine>,
    pub tap: Arc<Tap>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

/// What a node's thread tells when it serves.
type Begun = (Handle, Arc<dyn ObjectEngine>);

impl Node {
    /// Begins a node that is registered, on a disk, which is formatted.
    pub async fn begin(id: NodeId, manager: Arc<Manager>, wire: Arc<Wire>, tap: Arc<Tap>, bytes: u64) -> anyhow::Result<Node> {
        let (tell, told) = oneshot::channel::<Begun>();
        let (end, ended) = oneshot::channel();
        let disk: Arc<dyn Disk> = tap.clone();
        let work = async move || {
            let env = Env::real_with_cores(1);
            let device = open_device(&env, disk, id.0, bytes, SyncMode::Always).await?;
            let objects = Objects::serve(&env, manager, id, vec![device.volume(VolumeOwner::Objects)], around(id, &env, &wire));
            wire.begin(id, Handle::current(), objects.services_for_others());
            drop(tell.send((Handle::current(), objects.engine())));
            // Ends when the cluster drops its end, too.
            let _ = ended.await;
            anyhow::Ok(())
        };
        let thread = std::thread::Builder::new().name(format!("node-{}", id.0)).spawn(move || on_core(0, work))?;
        let (runtime, engine) = told.await.with_context(|| format!("node {id} has not begun"))?;
        Ok(Node { id, runtime, engine, tap, end: Some(end), thread: Some(thread) })
    }

    /// Processor time of the node's thread so far.
    pub async fn cpu(&self) -> anyhow::Result<Duration> {
        let read = self.runtime.spawn(async { usage::thread_cpu() });
        Ok(read.await.context("a node's thread")??)
    }

    /// Ends it as SIGKILL would: nothing that it does goes on.
    pub fn end(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            crate::complain!("node {}: {error:#}", self.id);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

fn around(me: NodeId, env: &Env, wire: &Arc<Wire>) -> Around {
    let (line, lost, env) = (wire.clone(), wire.clone(), env.clone());
    let ways = Arc::new(move |to, tag| {
        let line = Line { wire: line.clone(), env: env.clone(), me, to, tag };
        Some(Arc::new(line) as Arc<dyn Caller>)
    });
    Around { ways, silent: Arc::new(move || lost.silent()), ..Around::nothing() }
}
