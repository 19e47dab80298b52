//! A node that serves: its part of the manager, its devices and its gateway, then S3.
//!
//! A lone node that is given an address (`trilith cluster open`) closes in order, and its process executes the program anew: nothing that
//! held a lock is left then.

use super::guests::VolumeGuests;
use super::peers::{ClientsWrites, OtherNodes};
use super::signals::Signals;
use super::{devices, failed_manager, greet, make_default_buckets, notices, s3_metrics, threads};
use crate::credentials;
use crate::place::{CONSENSUS_FOLDER, Place};
use crate::ports;
use crate::settings::Settings;
use admin::{Admin, AdminServer, Sources};
use anyhow::{Context, bail};
use block::ImageStarter;
use chunkstore::ChunkStarter;
use consensus::LogPlace;
use device::Device;
use env::Env;
use filesystem::FileStarter;
use manager::{Manager, RegisterNode, Snapshot};
use net::{Guests, Network, RemoteCaller};
use node::{Node, NodeOptions, OpenNode, Role, Roles};
use object::{Engines, ObjectService};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use subsystem::Starter;
use topology::MAX_CELL_GATEWAYS;
use volstore::ObjectsStarter;

/// Where the node listened for the others at its last start.
const ADDRESS_FILE: &str = "last-address";
/// At which places the node serves images.
const SERVED_FILE: &str = "served-images.json";
/// Where the node has mounted file volumes.
const MOUNTS_FILE: &str = "mounts.json";
/// How often a start looks whether the gateway serves.
const SERVING_LOOK: Duration = Duration::from_millis(20);
/// How often a lone node looks whether it was given an address.
const PLACE_LOOK: Duration = Duration::from_millis(500);

/// Runs a node until SIGTERM or SIGINT.
pub async fn serve(settings: Settings, env: Env, place: Place) -> anyhow::Result<()> {
    let Some(opened) = serve_as(&settings, &env, place).await? else { return Ok(()) };
    tracing::info!(address = opened.address, "this node was given an address: it starts again with it");
    let failed = std::process::Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec();
    Err(failed).context("starting again; what was acknowledged is safe: start it by hand")
}

/// Serves with this place. Returns the next one if the node was given another, none if it was told to stop.
async fn serve_as(settings: &Settings, env: &Env, place: Place) -> anyhow::Result<Option<Place>> {
    place.check_exposure()?;
    let (roles, is_lone) = (place.roles()?, place.is_lone());
    let mut signals = Signals::listen()?;
    let started = signals.unless_told(start(settings, env, place, &roles)).await;
    let Some(started) = started.map_err(|error| failed_manager::explain(error, &settings.data))? else { return Ok(None) };
    let opened = || place_given(env, &settings.data, is_lone);
    if !roles.has(Role::Gateway) {
        tracing::info!(%roles, "this node serves what these roles do; S3 is served by others");
        started.admin.set_ready(true);
        started.greet(settings, None)?;
        tokio::select! {
            () = signals.told() => {}
            reason = started.node.stopped() => return Err(half_alive(reason)),
        }
        started.admin.set_ready(false);
        return started.close().await.map(|()| None);
    }
    tokio::select! {
        () = signals.told() => return started.close().await.map(|()| None),
        why = ended(env, settings, &started.node, is_lone) => return Err(why),
        () = wait_for_a_place(env, &started.node) => {}
    }
    let opening = signals.unless_told(started.open_s3(settings, env, is_lone)).await?;
    let Some(mut server) = opening else { return started.close().await.map(|()| None) };
    let next = tokio::select! {
        () = signals.told() => None,
        why = ended(env, settings, &started.node, is_lone) => return Err(why),
        // What was acknowledged is safe, and a part of the port is served by no thread.
        why = server.failed() => return Err(why),
        place = opened() => Some(place),
    };
    tracing::info!("stopping: finishing the requests in hand");
    started.admin.set_ready(false);
    server.stop().await?;
    started.close().await.map(|()| next)
}

/// Waits until this node's part of the manager has ended; why. A lone node, which no other one replaces, stays until a start would find room.
async fn ended(env: &Env, settings: &Settings, node: &Node, is_lone: bool) -> anyhow::Error {
    let reason = node.stopped().await;
    if is_lone {
        failed_manager::wait_for_room_to_start(env, &settings.data, &reason).await;
    }
    half_alive(reason)
}

/// Waits until a lone node was given an address; its place then.
async fn place_given(env: &Env, data: &Path, is_lone: bool) -> Place {
    if !is_lone {
        return std::future::pending().await;
    }
    loop {
        env.sleep(PLACE_LOOK).await;
        match Place::read(data) {
            Ok(Some(place)) if !place.is_lone() => return place,
            Ok(_) => {}
            Err(error) => tracing::warn!(error = format!("{error:#}"), "this node's place can't be read"),
        }
    }
}

/// A node that takes part in its cluster. Its S3 port is not open yet.
struct Started {
    node: Arc<Node>,
    devices: Vec<Arc<Device>>,
    service: Arc<ObjectService>,
    s3_address: Arc<OnceLock<SocketAddr>>,
    admin: Admin,
    admin_server: AdminServer,
    root: (credentials::Credentials, credentials::Origin),
    _pid: super::pid::PidFile,
}

/// The part of a start that needs no disks: from its end on the node votes.
struct Member {
    node: OpenNode,
    guests: Arc<VolumeGuests>,
    admin: Admin,
    admin_server: AdminServer,
    pid: super::pid::PidFile,
}

async fn start(settings: &Settings, env: &Env, mut place: Place, roles: &Roles) -> anyhow::Result<Started> {
    let (is_member, is_lone, cluster) = (place.is_member(), place.is_lone(), place.token()?.cluster);
    let (disks, member) = (open_disks(settings, env, roles), take_part(settings, env, &mut place, roles));
    let (disks, member) = match is_member {
        // The others count on its vote, also while one of its disks hangs.
        true => tokio::try_join!(disks, member)?,
        // Who is refused for its disks has not joined.
        false => (disks.await?, member.await?),
    };
    let Member { node: opened, guests, admin, admin_server, pid } = member;
    let manager = opened.manager().clone();
    manager.fresh().await.context("hearing the manager's leader")?;
    let named = || format!("taking part in cluster {cluster}, which cluster.toml names");
    let cluster = manager.ensure_this_cluster(cluster, format::FORMAT_VERSION).await.with_context(named)?;
    let found = devices::open_of_node(env, settings, &opened, cluster.id, disks, is_lone).await?;
    let node = Arc::new(opened.start(found.clone(), settings.engine.clone(), starters(settings)).await?);
    guests.begin(&node);
    let root = root_of(env, settings, &manager).await?;

    let objects: &volstore::Objects = node.subsystem().context("the list of subsystems has the volume engine")?;
    let engines = Engines::log(node.engine()).with_volume(objects.engine(), objects.strict_engine());
    let service = ObjectService::new(manager.clone(), engines, env.clone());
    let service = service.with_upload_memory(settings.upload_memory);
    let service = Arc::new(service.with_peers(Arc::new(OtherNodes(Arc::downgrade(&node)))));
    node.set_drain(Arc::new(ClientsWrites(Arc::downgrade(&service))));
    let (serving, s3_address) = (Arc::downgrade(&node), Arc::new(OnceLock::new()));
    admin.attach(Sources {
        manager,
        devices: found.clone(),
        missing: Vec::new(),
        store: Arc::new(move || serving.upgrade()?.store().map(|store| (*store).clone())),
        may_answer: may_answer(&node),
        subsystems: node.subsystems().to_vec(),
        uploads: s3_metrics::uploads(service.upload_memory()),
        surroundings: surroundings(&node),
        s3_address: s3_address.clone(),
        notices: notices(settings),
    });
    Ok(Started { node, devices: found, service, s3_address, admin, admin_server, root, _pid: pid })
}

/// What a node runs besides the log engine. A new subsystem is a line here.
fn starters(settings: &Settings) -> Vec<Box<dyn Starter>> {
    let chunks = ChunkStarter { settings: settings.chunks, scrub_period: settings.engine.scrub_period };
    let door = Arc::new(super::nbd::NbdDoor::new(settings.cores));
    let images = ImageStarter { door, served_file: settings.data.join(SERVED_FILE) };
    let door = Arc::new(super::mount::FuseDoor::new(settings.cores, &settings.data));
    let files = FileStarter { door, mounts_file: settings.data.join(MOUNTS_FILE), soft_inodes: settings.tree_inodes };
    vec![Box::new(chunks), Box::new(images), Box::new(files), Box::new(ObjectsStarter)]
}

async fn open_disks(settings: &Settings, env: &Env, roles: &Roles) -> anyhow::Result<Vec<devices::NamedDisk>> {
    match roles.has(Role::Target) {
        true => devices::open_disks(env, settings).await,
        false => devices::none(settings).map(|()| Vec::new()),
    }
}

/// Opens the consensus log, whose lock stops a second process on the same data, and takes part in the manager.
async fn take_part(settings: &Settings, env: &Env, place: &mut Place, roles: &Roles) -> anyhow::Result<Member> {
    let log = open_log(env, settings, place).await?;
    let pid = super::pid::PidFile::write(&settings.data);
    let admin = Admin::new(env, env!("CARGO_PKG_VERSION"));
    ports::check(settings, roles.has(Role::Gateway))?;
    ports::check_cluster(&place.address)?;
    let admin_server = AdminServer::start(settings.admin_address, &admin).await?;
    let (identity, network) = (place.identity()?, place.network(env, &settings.data)?);
    if !place.is_lone() {
        tracing::info!(tls = place.tls, "connections between the nodes of the cluster");
    }
    refuse_copy(settings, env, place, network.clone()).await?;
    let register = register(settings, env, place, roles)?;
    let (via, is_sole) = (place.via.clone(), place.is_lone());
    let guests = Arc::new(VolumeGuests::new(place.token()?));
    let let_in: Arc<dyn Guests> = guests.clone();
    let options = NodeOptions { network, identity, log, register, roles: roles.clone(), via, is_sole, guests: Some(let_in) };
    let note = || place.note_member(&settings.data).map_err(|error| format!("{error:#}"));
    let node = Node::open_noting(env, options, Box::new(note)).await?;
    Ok(Member { node, guests, admin, admin_server, pid })
}

impl Started {
    /// Serves clients. The node's gateway is in the cell's view.
    async fn open_s3(&self, settings: &Settings, env: &Env, is_lone: bool) -> anyhow::Result<threads::Threads> {
        let manager = self.node.manager();
        self.service.look_after_removals();
        make_default_buckets(manager, &settings.default_buckets).await?;
        // Messages to other nodes come and go on the main thread.
        let main = if is_lone { threads::MainThread::Apart } else { threads::MainThread::Serves };
        let server = threads::start(settings, self.service.clone(), manager.clone(), env, main)?;
        s3_metrics::register(self.admin.registry(), server.app());
        self.s3_address.set(server.address()).ok();
        self.admin.set_ready(true);
        self.greet(settings, Some(server.address()))?;
        Ok(server)
    }

    fn greet(&self, settings: &Settings, s3: Option<SocketAddr>) -> anyhow::Result<()> {
        let (root, origin) = &self.root;
        greet(settings, s3, &self.admin_server, origin, root)
    }

    /// Ends the node's part in its cluster in order.
    async fn close(self) -> anyhow::Result<()> {
        let Started { node, devices, admin_server, service, .. } = self;
        drop(service);
        node.close(&devices).await;
        admin_server.stop();
        tracing::info!("stopped");
        Ok(())
    }
}

/// A process that knows of nothing new must not go on: whoever started it sees that it has ended, and starts it again.
fn half_alive(reason: String) -> anyhow::Error {
    anyhow::anyhow!(
        "this node's part of the manager has stopped, and the node ends with it: {reason}. What was acknowledged is safe. Look at the disk that holds \
         its data folder, then start it again"
    )
}

/// The node's consensus log.
async fn open_log(env: &Env, settings: &Settings, place: &Place) -> anyhow::Result<LogPlace> {
    let folder = settings.data.join(CONSENSUS_FOLDER);
    if place.is_member() && !LogPlace::is_in_folder(&folder)? {
        bail!(
            "{} is a node of a cluster, and its part of the manager, {}, is gone or empty. It does not come back without it, because others \
             count on what it has voted for. Put it back as it was when the node ended, not an older copy; or, on another node, \
             `trilith cluster remove {}`, and join an empty folder",
            settings.data.display(),
            folder.display(),
            place.name
        );
    }
    LogPlace::in_folder(env, &folder).await.context("opening the consensus log")
}

/// Whether this node's gateway has the right to answer clients.
fn may_answer(node: &Arc<Node>) -> admin::MayAnswer {
    let node = Arc::downgrade(node);
    Arc::new(move || node.upgrade().is_some_and(|node| node.may_answer()))
}

/// What this node knows of the others.
fn surroundings(node: &Arc<Node>) -> admin::SurroundingsSource {
    let node = Arc::downgrade(node);
    let look = |node: Arc<Node>| admin::Surroundings {
        silent: node.silent(),
        clocks_off_ms: node.clocks_off_ms(),
        repair_left: node.repair_left(),
        was_removed: node.was_removed(),
    };
    Arc::new(move || node.upgrade().map(look).unwrap_or_default())
}

/// Until this node's gateway serves: some seconds, or, in a cell with as many gateways as it may have, until one of them has gone.
async fn wait_for_a_place(env: &Env, node: &Node) {
    if node.store().is_none() {
        tracing::info!("waiting until this node's gateway is in the cell's view: the S3 port opens then");
    }
    let mut was_full = false;
    while node.store().is_none() {
        let is_full = node.manager().snapshot().cell(node::CELL).is_some_and(|cell| cell.is_full());
        if is_full && !was_full {
            let most = MAX_CELL_GATEWAYS;
            tracing::info!(
                most,
                "the cell has as many gateways as it may have: this node serves its devices, and its gateway waits for a place"
            );
        }
        was_full = is_full;
        env.sleep(SERVING_LOOK).await;
    }
}

/// A folder that comes with another address than at its last start may be a copy. If its node runs where it was, this one does not start: two
/// processes with one identity would vote twice.
async fn refuse_copy(settings: &Settings, env: &Env, place: &Place, network: Arc<dyn Network>) -> anyhow::Result<()> {
    let path = settings.data.join(ADDRESS_FILE);
    let former = match std::fs::read_to_string(&path) {
        Ok(former) => former.trim().to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => place.address.clone(),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if former != place.address {
        let caller = RemoteCaller::new(env, network, &former, place.identity()?);
        if node::answers_as(env, &caller, place.node_identity()?).await {
            bail!(
                "the node of this folder runs at {former}, with the same identity: {} is a copy. A further node begins with an empty \
                 folder and `trilith cluster join`",
                settings.data.display()
            );
        }
    }
    if let Err(error) = note_address(&path, &place.address) {
        // The cluster lasts; only a copy that is started at another address would not be told from it.
        tracing::warn!(path = %path.display(), %error, "the node's address could not be written down");
    }
    Ok(())
}

/// Writes an address down unless it stands there; an older one stays if that fails.
fn note_address(path: &Path, address: &str) -> std::io::Result<()> {
    let line = format!("{address}\n");
    if std::fs::read_to_string(path).is_ok_and(|known| known == line) {
        return Ok(());
    }
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, line)?;
    std::fs::rename(&temporary, path)
}

fn register(settings: &Settings, env: &Env, place: &Place, roles: &Roles) -> anyhow::Result<RegisterNode> {
    Ok(RegisterNode {
        identity: place.node_identity()?,
        name: place.name.clone(),
        address: place.address.clone(),
        admin_address: settings.admin_address.to_string(),
        s3_address: if roles.has(Role::Gateway) { settings.s3_address.to_string() } else { String::new() },
        host: place.host.clone(),
        rack: place.rack.clone(),
        zone: place.zone.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        joined_ms: env.wall_clock_ms(),
    })
}

/// The root credential: what the settings say, else what the cluster has, else a new one that this node shows.
async fn root_of(
    env: &Env,
    settings: &Settings,
    manager: &Manager,
) -> anyhow::Result<(credentials::Credentials, credentials::Origin)> {
    let known = |state: &Snapshot| state.credentials().into_iter().find(|credential| credential.is_root);
    if settings.root.is_none()
        && credentials::kept(&settings.data)?.is_none()
        && let Some(root) = known(&manager.snapshot())
    {
        let pair = credentials::Credentials { user: root.access_key.clone(), password: root.secret.clone() };
        return Ok((pair, credentials::Origin::Settings));
    }
    let (root, origin) = credentials::root(env, &settings.data, settings.root.as_ref())?;
    manager.set_root_credential(&root.user, &root.password).await?;
    Ok((root, origin))
}
