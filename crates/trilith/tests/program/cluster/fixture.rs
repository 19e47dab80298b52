//! A cluster of a test: three nodes on loopback addresses of their own, with a bound on everything that is waited for.

use super::NODES;
use crate::http::Connection;
use crate::server::{Home, LOOK, PASSWORD, USER, program, text};
use env::Env;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Until a cluster serves with all of its nodes: a node that was cut off waits some seconds before it is taken in again, and longer
/// each time.
const SETTLE_PATIENCE: Duration = Duration::from_secs(90);
/// Until a process ends that was told to.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// Small zones: every start ends those that were open, and there are many starts.
const ZONE_SIZE: &str = "4MiB";
const DEVICE_SIZE: &str = "1GiB";
/// Ports on a cluster's address: a node's are these and its number times ten.
const S3_PORT: u32 = 9000;
const ADMIN_PORT: u32 = 9001;
const CLUSTER_PORT: u32 = 9002;
const ALL_ROLES: &str = "manager,target,gateway";

/// Clusters that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A loopback address that nobody else uses: of this process, and of this cluster in it.
pub fn own_address() -> String {
    let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    // The next two addresses belong to it too: `trilith cluster dev` counts upwards.
    format!("127.{}.{}.{}", 1 + (made + 40 * (process >> 14)) % 250, process >> 6 & 0xff, (process & 0x3f) * 4 + 1)
}

/// The first of sixteen loopback addresses that nobody else uses.
pub fn own_addresses() -> String {
    let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 251 + made % 4, process >> 4 & 0xff, (process & 0xf) * 16 + 1)
}

/// A running cluster. Dropped, it is killed.
pub struct Cluster {
    pub home: Home,
    address: String,
    pub token: String,
    /// Its nodes are connected by TLS.
    tls: bool,
    /// Devices are read for damage in the background.
    scrubs: bool,
    nodes: Vec<Option<Child>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            // It may have ended already; a paused one dies too.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Cluster {
    /// A first node, alone.
    pub fn of_one() -> Cluster {
        Cluster::found(false, true)
    }

    /// A first node with these roles, alone.
    pub fn of_one_with(roles: &str) -> Cluster {
        Cluster::found_with(false, true, roles)
    }

    /// A first node, alone.
    pub fn found(tls: bool, scrubs: bool) -> Cluster {
        Cluster::found_with(tls, scrubs, ALL_ROLES)
    }

    /// A first node that no other node can reach: `trilith serve` in an empty folder.
    pub fn lone_with(disks: usize) -> Cluster {
        let mut cluster = Cluster::without_nodes(false, true);
        let disks: Vec<PathBuf> = (0..disks).map(|disk| cluster.data(0).join(format!("device-{disk}.trilith"))).collect();
        if disks.len() > 1 {
            std::fs::create_dir_all(cluster.data(0)).unwrap();
            disks.iter().for_each(|disk| Cluster::format_file(disk));
            let named: Vec<String> = disks.iter().map(|disk| disk.display().to_string()).collect();
            std::fs::write(cluster.data(0).join("trilith.toml"), format!("devices = {:?}\n", named.join(","))).unwrap();
        }
        cluster.spawn(0);
        cluster.await_ready(0);
        cluster
    }

    fn without_nodes(tls: bool, scrubs: bool) -> Cluster {
        let (home, address, token) = (Home::new(), own_address(), String::new());
        Cluster { home, address, token, tls, scrubs, nodes: (0..NODES).map(|_| None).collect() }
    }

    /// Gives a lone node that runs an address for others.
    pub fn open(&mut self) {
        self.run(0, &["cluster", "open", "--data", &self.data(0).display().to_string(), "--cluster-addr", &self.at(0)]);
        self.read_token();
    }

    fn read_token(&mut self) {
        let token = program().args(["cluster", "token", "--data"]).arg(self.data(0)).output().unwrap();
        self.token = text(&token.stdout).trim().to_owned();
    }

    fn found_with(tls: bool, scrubs: bool, roles: &str) -> Cluster {
        let mut cluster = Cluster::without_nodes(tls, scrubs);
        let made = cluster.init_command(0, &cluster.data(0).display().to_string()).args(["--roles", roles]).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        cluster.read_token();
        cluster.format_if_target(0, roles);
        cluster.spawn(0);
        cluster.await_ready(0);
        cluster
    }

    /// Three nodes that serve.
    pub fn of_three() -> Cluster {
        Cluster::of_one().grown()
    }

    /// Three nodes that serve, connected by TLS or not, and read nothing for damage until they are asked.
    pub fn of_three_without_scrubs(tls: bool) -> Cluster {
        Cluster::found(tls, false).grown()
    }

    /// Three nodes that serve, of a first one.
    pub fn grown(mut self) -> Cluster {
        let cluster = &mut self;
        (1..NODES).for_each(|node| cluster.join_and_spawn(node));
        cluster.settle();
        self
    }

    /// `trilith cluster init` with a node's addresses.
    pub fn init(&self, node: usize, data: &str) -> Output {
        self.init_command(node, data).output().unwrap()
    }

    fn init_command(&self, node: usize, data: &str) -> Command {
        let address = self.at(node);
        let mut command = program();
        command.args(["cluster", "init", "--cluster-addr", &address, "--data", data]);
        command.args(self.tls.then_some("--tls"));
        command
    }

    /// `trilith cluster join` with a node's addresses, through the first node.
    pub fn join(&self, node: usize, token: &str, data: &str) -> Output {
        self.join_command(node, token, data).output().unwrap()
    }

    fn join_command(&self, node: usize, token: &str, data: &str) -> Command {
        let (address, via) = (self.at(node), self.at(0));
        let mut command = program();
        command.args(["cluster", "join", token, "--via", &via, "--cluster-addr", &address, "--data", data]);
        command
    }

    /// A further node; waits for nothing.
    pub fn join_and_spawn(&mut self, node: usize) {
        self.join_and_spawn_with(node, ALL_ROLES);
    }

    /// A further node with these roles; waits for nothing.
    pub fn join_and_spawn_with(&mut self, node: usize, roles: &str) {
        let data = self.data(node).display().to_string();
        let joined = self.join_command(node, &self.token, &data).args(["--roles", roles]).output().unwrap();
        assert!(joined.status.success(), "{}", text(&joined.stderr));
        self.format_if_target(node, roles);
        self.spawn(node);
    }

    fn format_if_target(&self, node: usize, roles: &str) {
        if roles.contains("target") {
            self.format(node);
        }
    }

    /// Gives a node an empty device.
    pub fn format(&self, node: usize) {
        Cluster::format_file(&self.data(node).join("device-0.trilith"));
    }

    fn format_file(path: &std::path::Path) {
        let mut format = program();
        format.args(["device", "format", "--size", DEVICE_SIZE, "--zone-size", ZONE_SIZE]);
        let output = format.arg(path).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    pub fn data(&self, node: usize) -> PathBuf {
        self.home.path(&format!("node-{node}"))
    }

    fn port(&self, node: usize, first: u32) -> String {
        format!("{}:{}", self.address, first + 10 * node as u32)
    }

    /// Where a node's S3 port is.
    pub fn s3(&self, node: usize) -> String {
        self.port(node, S3_PORT)
    }

    pub fn all_s3(&self) -> Vec<String> {
        (0..NODES).map(|node| self.s3(node)).collect()
    }

    pub fn admin(&self, node: usize) -> String {
        self.port(node, ADMIN_PORT)
    }

    /// Where a node listens for the others.
    pub fn at(&self, node: usize) -> String {
        self.port(node, CLUSTER_PORT)
    }

    pub fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.home.path(&format!("node-{node}.log"))).unwrap_or_default()
    }

    /// `trilith serve` of a folder on a node's addresses.
    pub fn serve_command(&self, node: usize, data: &std::path::Path) -> Command {
        let mut command = program();
        command.env("TRILITH_S3_ADDR", self.s3(node)).env("TRILITH_ADMIN_ADDR", self.admin(node));
        command.env("TRILITH_DEVICE_SIZE", DEVICE_SIZE).env("TRILITH_CORES", "1");
        command.env("TRILITH_ROOT_USER", USER).env("TRILITH_ROOT_PASSWORD", PASSWORD);
        if !self.scrubs {
            // A scrub would begin with the few blocks that there are, and find the damage that a test is about.
            command.env("TRILITH_SCRUB_PERIOD", "off");
        }
        command.arg("serve").arg("--data").arg(data);
        command
    }

    /// Starts a node and waits for nothing.
    pub fn spawn(&mut self, node: usize) {
        let log = OpenOptions::new().create(true).append(true).open(self.home.path(&format!("node-{node}.log"))).unwrap();
        let mut command = self.serve_command(node, &self.data(node));
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the program starts");
        let former = self.nodes[node].replace(child);
        assert!(former.is_none(), "node {node} runs");
    }

    /// Ends a node in the middle of whatever it does.
    pub fn kill(&mut self, node: usize) {
        let mut child = self.nodes[node].take().expect("a node that runs");
        child.kill().expect("our own child can be killed");
        child.wait().expect("a child can be waited for");
    }

    /// Ends several nodes at once.
    pub fn kill_all(&mut self, nodes: &[usize]) {
        nodes.iter().for_each(|node| self.signal(*node, Signal::KILL));
        for node in nodes {
            self.nodes[*node].take().expect("a node that runs").wait().expect("a child can be waited for");
        }
    }

    pub fn pause(&self, node: usize) {
        self.signal(node, Signal::STOP);
    }

    pub fn go_on(&self, node: usize) {
        self.signal(node, Signal::CONT);
    }

    /// Stops a node in order.
    pub fn stop(&mut self, node: usize) {
        self.signal(node, Signal::TERM);
        let mut child = self.nodes[node].take().expect("a node that runs");
        let status = await_some(END_PATIENCE, &format!("the end of node {node}"), || child.try_wait().unwrap());
        assert!(status.success(), "{status}: {}", self.log(node));
    }

    fn signal(&self, node: usize, signal: Signal) {
        let child = self.nodes[node].as_ref().expect("a node that runs");
        kill_process(Pid::from_raw(child.id() as i32).expect("a process id"), signal).expect("our own child can be signalled");
    }

    /// A command of the program against a node, with root credentials; what it prints.
    pub fn run(&self, node: usize, arguments: &[&str]) -> String {
        let mut command = program();
        command.env("TRILITH_ENDPOINT", format!("http://{}", self.s3(node))).env("TRILITH_ADMIN_ADDR", self.admin(node));
        command.env("TRILITH_ROOT_USER", USER).env("TRILITH_ROOT_PASSWORD", PASSWORD);
        let output = command.args(arguments).output().expect("the program runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Makes a bucket that everybody may use. All nodes that run know it when this returns.
    pub fn make_open_bucket(&self, name: &str) {
        self.run(0, &["bucket", "make", name]);
        self.run(0, &["bucket", "policy", "set", name, "public-read-write"]);
        for node in (0..NODES).filter(|node| self.nodes[*node].is_some()) {
            await_some(SETTLE_PATIENCE, &format!("the bucket at node {node}"), || {
                let answer = Connection::open(&self.s3(node)).ok()?.get(&format!("/{name}?list-type=2")).ok()?;
                (answer.status == 200).then_some(())
            });
        }
    }

    /// What a node says of itself, if it answers.
    pub fn status(&self, node: usize) -> Option<Value> {
        let answer = Connection::open(&self.admin(node)).ok()?.get("/status").ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Waits until a node serves S3.
    pub fn await_ready(&self, node: usize) {
        await_some(SETTLE_PATIENCE, &format!("node {node} to serve; its log: {}", self.home.path("").display()), || {
            (self.status(node)?["ready"] == true).then_some(())
        });
    }

    /// Waits until the nodes that run say of each of these that it is away.
    pub fn await_away(&self, away: &[usize]) {
        let running = (0..NODES).filter(|node| self.nodes[*node].is_some() && !away.contains(node));
        for node in running {
            await_some(SETTLE_PATIENCE, &format!("node {node} to know that {away:?} are away"), || {
                let cell = self.status(node)?["cell"].clone();
                let is_away = |away: &usize| {
                    let nodes = cell["nodes"].as_array().into_iter().flatten();
                    nodes.filter(|node| node["address"] == self.at(*away).as_str()).all(|node| node["serves"] == false)
                };
                (cell["gateways"].as_u64()? > 0 && away.iter().all(is_away)).then_some(())
            });
        }
    }

    /// Waits until all nodes serve, all devices are written to, and nothing is undecided, as all nodes say.
    pub fn settle(&self) {
        for node in 0..NODES {
            await_some(SETTLE_PATIENCE, &format!("node {node} to see a whole cluster"), || {
                let status = self.status(node)?;
                let cell = &status["cell"];
                let is = |list: &str, what: &str| {
                    // A node may have several devices.
                    let all = cell[list].as_array().filter(|all| all.len() == NODES || list == "devices" && all.len() > NODES);
                    all.is_some_and(|all| all.iter().all(|one| one[what] == true))
                };
                let is_whole = status["ready"] == true && cell["gateways"] == NODES && is("nodes", "serves");
                let is_decided = cell["undecided"].as_array()?.is_empty() && !cell["manager_leader"].is_null();
                // A recovery would wait for the first node's device (RFD 4).
                let is_covered = cell["alone"].as_array()?.is_empty();
                (is_whole && is_decided && is_covered && is("devices", "is_written") && is("nodes", "votes")).then_some(())
            });
        }
        // A lease comes a moment after its view.
        for node in 0..NODES {
            await_some(SETTLE_PATIENCE, &format!("a read at node {node}"), || {
                let answer = Connection::open(&self.s3(node)).ok()?.get("/linear/hot/key-0").ok()?;
                (answer.status != 503).then_some(())
            });
        }
    }
}

/// Looks until there is something, or for too long.
pub fn await_some<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let env = Env::real_with_cores(1);
    let deadline = env.now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(env.now() < deadline, "waited {patience:?} for {what}");
        std::thread::sleep(10 * LOOK);
    }
}
