//! The servers that are measured: processes of this program, started and stopped here. Shared by the experiments of both papers.

use crate::clock;
use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use topology::MAX_CELL_GATEWAYS;

/// The bucket of every experiment.
pub const BUCKET: &str = "bench";
/// How long servers may take to serve, and to stop.
const START_PATIENCE: Duration = Duration::from_secs(60);
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked whether they do.
const LOOK: Duration = Duration::from_millis(50);
/// How long the admin port may take to answer.
const ADMIN_PATIENCE: Duration = Duration::from_secs(5);
/// Addresses of single servers begin so far behind the first.
const SINGLE_OFFSET: u32 = 16;

/// Where and how servers are started.
#[derive(Debug, Clone, clap::Args)]
pub struct LabArgs {
    /// Folder for the servers' data; what is made in it is removed
    #[arg(long, default_value = "./trilith-bench")]
    pub work: PathBuf,

    /// First of the loopback addresses that the servers use
    #[arg(long, default_value = "127.0.50.1")]
    pub first_addr: Ipv4Addr,

    /// Threads of each server that serve requests
    #[arg(long, default_value_t = 1)]
    pub cores: u32,

    /// The program whose servers are measured [default: this one]
    #[arg(long)]
    pub program: Option<PathBuf>,
}

/// Where systems are started.
pub struct Lab {
    program: PathBuf,
    work: PathBuf,
    first_addr: Ipv4Addr,
    cores: u32,
}

/// How one system is set up.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Its folder, and the number of its first address.
    pub name: &'static str,
    pub place: u32,
    /// Settings in their environment form.
    pub settings: Vec<(&'static str, String)>,
    pub device_size: &'static str,
    /// Of its bucket; none: the usual one.
    pub engine: Option<&'static str>,
}

/// A running system. It ends, and its data is removed, when this is dropped.
pub struct System {
    pub name: &'static str,
    pub nodes: Vec<Place>,
    program: PathBuf,
    settings: Vec<(&'static str, String)>,
    /// The command line.
    words: Vec<OsString>,
    process: Child,
    /// Nodes that were started by themselves: again, or later than the others.
    further: Vec<Child>,
    data: PathBuf,
    device_size: &'static str,
}

/// Where one process of a system is.
#[derive(Clone, Debug)]
pub struct Place {
    /// What the cluster calls it.
    pub name: String,
    pub address: Ipv4Addr,
    /// HOST:PORT.
    pub s3: String,
    pub admin: String,
    pub data: PathBuf,
}

impl Lab {
    pub fn new(args: &LabArgs) -> anyhow::Result<Lab> {
        let program = match &args.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("finding this program")?,
        };
        ensure!(args.first_addr.is_loopback(), "{} is no loopback address", args.first_addr);
        Ok(Lab { program, work: args.work.clone(), first_addr: args.first_addr, cores: args.cores })
    }

    /// A folder in the place of work.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn address(&self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first_addr.to_bits() + offset)
    }

    /// A server of its own with so many devices, files in one folder: as many copies.
    pub fn single(&self, setup: Setup, devices: usize) -> anyhow::Result<System> {
        let data = self.fresh_folder(setup.name)?;
        let address = self.address(SINGLE_OFFSET + setup.place);
        let files: Vec<String> =
            (1..=devices).map(|number| data.join(format!("device-{number}")).display().to_string()).collect();
        let place = Place::at("server", address, &data);
        let mut command = self.command(&setup);
        command.args(["serve", "--devices", &files.join(","), "--device-size", setup.device_size]);
        command.args(["--s3-addr", &place.s3, "--admin-addr", &place.admin, "--cores", &self.cores.to_string()]);
        command.arg("--data").arg(&place.data);
        let (credentials, engine) = (place.data.clone(), setup.engine);
        let system = self.start(setup, command, data, vec![place])?;
        system.make_bucket(&credentials, engine)?;
        Ok(system)
    }

    /// A cluster with one device at each node, as `trilith cluster dev` starts it.
    pub fn cluster(&self, setup: Setup, nodes: usize) -> anyhow::Result<System> {
        let engine = setup.engine;
        let system = self.bare_cluster(setup, nodes)?;
        system.make_bucket(&system.data, engine)?;
        Ok(system)
    }

    /// The same without a bucket.
    pub fn bare_cluster(&self, setup: Setup, nodes: usize) -> anyhow::Result<System> {
        let data = self.fresh_folder(setup.name)?;
        let node = |number: usize| Place::at(&format!("node-{number}"), self.address(setup.place + number as u32 - 1), &data);
        let places = (1..=nodes).map(node).collect();
        let mut command = self.command(&setup);
        command.args(["cluster", "dev", "--nodes", &nodes.to_string(), "--device-size", setup.device_size]);
        command.args(["--first-addr", &self.address(setup.place).to_string(), "--cores", &self.cores.to_string()]);
        command.arg("--data").arg(&data);
        self.start(setup, command, data, places)
    }

    fn fresh_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let data = self.work.join(name);
        if data.exists() {
            std::fs::remove_dir_all(&data).with_context(|| format!("removing {}", data.display()))?;
        }
        std::fs::create_dir_all(&data).with_context(|| format!("making {}", data.display()))?;
        Ok(data)
    }

    fn command(&self, setup: &Setup) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(setup.settings.iter().map(|(key, value)| (key, value)));
        command
    }

    fn start(&self, setup: Setup, mut command: Command, data: PathBuf, nodes: Vec<Place>) -> anyhow::Result<System> {
        let log = std::fs::File::create(data.join("bench.log")).context("making a log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("starting {}", setup.name))?;
        let Setup { name, settings, device_size, .. } = setup;
        let (program, words) = (self.program.clone(), command.get_args().map(OsString::from).collect());
        let further = Vec::new();
        let mut system = System { name, nodes, program, settings, words, process, further, data, device_size };
        system.wait_until_all_serve()?;
        Ok(system)
    }
}

impl Place {
    fn at(name: &str, address: Ipv4Addr, folder: &Path) -> Place {
        let data = folder.join(name);
        Place { name: name.to_owned(), address, s3: format!("{address}:9000"), admin: format!("{address}:9001"), data }
    }
}

impl System {
    /// Makes the bucket that everybody may use.
    fn make_bucket(&self, credentials: &Path, engine: Option<&str>) -> anyhow::Result<()> {
        let made: Vec<&str> =
            ["make", BUCKET].into_iter().chain(engine.into_iter().flat_map(|engine| ["--engine", engine])).collect();
        for words in [made, vec!["policy", "set", BUCKET, "public-read-write"]] {
            let mut command = Command::new(&self.program);
            command.arg("bucket").args(words).args(["--endpoint", &format!("http://{}", self.nodes[0].s3)]);
            command.env_remove("AWS_ACCESS_KEY_ID").env_remove("TRILITH_ROOT_USER").arg("--data").arg(credentials);
            let output = command.output().context("making the bucket")?;
            ensure!(output.status.success(), "making the bucket: {}", String::from_utf8_lossy(&output.stderr));
        }
        // Buckets and policies are known at once to whoever asks, and a moment later everywhere.
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    }

    /// Waits until every node serves, in one view with a copy on every device.
    pub fn wait_until_all_serve(&mut self) -> anyhow::Result<()> {
        let until = clock::now() + START_PATIENCE;
        while !self.all_serve() {
            ensure!(self.process.try_wait()?.is_none(), "{} ended: see {}", self.name, self.data.display());
            ensure!(clock::now() < until, "{} does not serve: see {}", self.name, self.data.display());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether as many processes answer S3 as may and, in a cluster, all are in the view with their devices.
    pub fn all_serve(&self) -> bool {
        let open = self.nodes.iter().filter(|node| TcpStream::connect(&node.s3).is_ok()).count();
        open == self.gateways() && self.nodes.iter().all(|node| self.is_whole(node))
    }

    /// Gateways of a whole cluster.
    fn gateways(&self) -> usize {
        self.nodes.len().min(MAX_CELL_GATEWAYS)
    }

    fn is_whole(&self, node: &Place) -> bool {
        let Ok(status) = status(&node.admin) else { return false };
        let cell = &status["cell"];
        if self.nodes.len() == 1 {
            return !status.is_null();
        }
        let devices = cell["devices"].as_array().map_or(&[][..], Vec::as_slice);
        let are_written = devices.len() == self.nodes.len() && devices.iter().all(|device| device["is_written"] == true);
        let is_decided = cell["undecided"].as_array().is_some_and(Vec::is_empty);
        cell["gateways"].as_u64() == Some(self.gateways() as u64) && are_written && is_decided
    }

    /// The process of a node.
    fn pid(&self, node: usize) -> anyhow::Result<Pid> {
        let path = self.nodes[node].data.join("trilith.pid");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let number = text.trim().parse().with_context(|| format!("{} holds no number", path.display()))?;
        Pid::from_raw(number).with_context(|| format!("{} holds no process", path.display()))
    }

    /// Processor time of all processes so far, children that have ended not included.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        let mut total = Duration::ZERO;
        for node in 0..self.nodes.len() {
            total += cpu_of(self.pid(node)?)?;
        }
        Ok(total)
    }

    /// A node's metric without labels, or the sum over its series; 0 if there is none.
    pub fn metric(&self, node: usize, name: &str) -> anyhow::Result<f64> {
        let text = get(&self.nodes[node].admin, "/metrics")?;
        let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        Ok(text.lines().filter(is_it).filter_map(value).sum())
    }

    /// The same, summed over all nodes.
    pub fn metrics(&self, name: &str) -> anyhow::Result<f64> {
        self.metrics_of_first(self.nodes.len(), name)
    }

    /// The same, summed over so many nodes: later ones may not run yet.
    pub fn metrics_of_first(&self, nodes: usize, name: &str) -> anyhow::Result<f64> {
        (0..nodes).map(|node| self.metric(node, name)).sum()
    }

    /// The status of a node.
    pub fn status(&self, node: usize) -> anyhow::Result<Value> {
        status(&self.nodes[node].admin)
    }

    /// Ends a node's process at once.
    pub fn kill(&self, node: usize) -> anyhow::Result<()> {
        kill_process(self.pid(node)?, Signal::KILL).context("killing a node")
    }

    /// Stops the whole system in order, and starts it again as it was.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        stop(&mut self.process);
        let log = std::fs::File::create(self.data.join("again.log")).context("making a log")?;
        let mut command = Command::new(&self.program);
        command.envs(self.settings.iter().map(|(key, value)| (key, value))).args(&self.words);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.process = command.spawn().with_context(|| format!("starting {} again", self.name))?;
        self.wait_until_all_serve()
    }

    /// Starts a node again that has ended.
    pub fn restart(&mut self, node: usize) -> anyhow::Result<()> {
        self.serve(node, &[])
    }

    fn serve(&mut self, node: usize, options: &[&str]) -> anyhow::Result<()> {
        let log = std::fs::File::create(self.nodes[node].data.join("trilith.log")).context("making a log")?;
        let mut command = Command::new(&self.program);
        command.envs(self.settings.iter().map(|(key, value)| (key, value)));
        command.args(["serve", "--data"]).arg(&self.nodes[node].data).args(options);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        self.further.push(command.spawn().context("starting a node")?);
        Ok(())
    }

    /// Gives a further node its place in the cluster; its index. It is not started yet.
    pub fn join(&mut self) -> anyhow::Result<usize> {
        let first = self.nodes[0].clone();
        let address = Ipv4Addr::from_bits(first.address.to_bits() + self.nodes.len() as u32);
        let place = Place::at(&format!("node-{}", self.nodes.len() + 1), address, &self.data);
        let token = self.ask(&["cluster", "token", "--data"], &first.data)?;
        let (via, own) = (format!("{}:9002", first.address), format!("{address}:9002"));
        let words = ["cluster", "join", token.trim(), "--via", &via, "--cluster-addr", &own, "--name", &place.name, "--data"];
        self.ask(&words, &place.data)?;
        self.nodes.push(place);
        Ok(self.nodes.len() - 1)
    }

    /// Starts a node that has joined.
    pub fn start_joined(&mut self, node: usize) -> anyhow::Result<()> {
        let Place { s3, admin, .. } = self.nodes[node].clone();
        let options = vec!["--s3-addr", &s3, "--admin-addr", &admin, "--cores", "1", "--device-size", self.device_size];
        self.serve(node, &options)
    }

    /// Removes a node that has ended, asking another one.
    pub fn remove(&self, node: usize, by: usize) -> anyhow::Result<()> {
        let words = ["cluster", "remove", &self.nodes[node].name, "--force", "--data"];
        self.ask(&words, &self.nodes[by].data).map(|_| ())
    }

    /// A command of the program on a node's folder; what it prints.
    fn ask(&self, words: &[&str], data: &Path) -> anyhow::Result<String> {
        let output = Command::new(&self.program).args(words).arg(data).output().context("running a command")?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.further.iter_mut().for_each(stop);
        stop(&mut self.process);
        // What can't be removed stays, and the next run removes it.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Asks a process to end, and makes it end.
fn stop(process: &mut Child) {
    let id = Pid::from_child(process);
    if process.try_wait().is_ok_and(|ended| ended.is_none()) && kill_process(id, Signal::TERM).is_ok() {
        let until = clock::now() + STOP_PATIENCE;
        while clock::now() < until && process.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(LOOK);
        }
    }
    // One that has ended already is only waited for.
    let _ = process.kill();
    let _ = process.wait();
}

/// User and system time of a process, its ended threads included (proc(5), /proc/PID/stat).
fn cpu_of(pid: Pid) -> anyhow::Result<Duration> {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let ticks = ticks_of(&text).with_context(|| format!("{path} is not as expected"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Fields 14 and 15; the second field is a name in parentheses that may hold anything.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn status(admin: &str) -> anyhow::Result<Value> {
    serde_json::from_str(&get(admin, "/status")?).context("the status is no JSON")
}

/// A GET of an admin port.
fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(ADMIN_PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("asking {address} for {path}"))?;
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("{address} gave no answer to {path}") };
    ensure!(head.starts_with("HTTP/1.1 200"), "{address} answers {path} with {}", head.lines().next().unwrap_or_default());
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests;
