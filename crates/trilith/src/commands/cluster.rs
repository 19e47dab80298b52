//! `trilith cluster`: making a cluster of several nodes, joining one, looking at it, trying one on this machine.

mod dev;
mod place;
pub mod remove;
mod status;

use clap::{Args, Subcommand};
use node::Role;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Nodes of a cluster on one machine: beyond these it shows nothing more.
const MAX_DEV_NODES: i64 = 12;

/// Make a cluster of several nodes, join one, look at it, or try one on this machine
#[derive(Subcommand, Clone, Debug)]
pub enum ClusterCommand {
    /// Make this data folder the first node of a new cluster; prints the token that lets others in
    Init(InitArgs),
    /// Give the server of this data folder an address at which other nodes reach it, and let them in
    Open(InitArgs),
    /// Make this data folder a node of an existing cluster
    Join(JoinArgs),
    /// Print the token that lets nodes into this folder's cluster
    Token(DataArgs),
    /// Print the nodes, gateways and devices of the cluster that a server belongs to
    Status(StatusArgs),
    /// Remove a node that does not come back
    Remove(RemoveArgs),
    /// Run a whole cluster on this machine, one process for each node, to try it and to break it
    Dev(DevArgs),
}

/// The folder of a node.
#[derive(Args, Clone, Debug)]
pub struct DataArgs {
    /// Folder for everything that the node keeps
    #[arg(long, global = true, env = "TRILITH_DATA", default_value = "./trilith-data")]
    pub data: PathBuf,
}

/// Where a node is.
#[derive(Args, Clone, Debug)]
pub struct NodeArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Where this node listens for the others
    #[arg(long, env = "TRILITH_CLUSTER_ADDR", default_value = "127.0.0.1:9002")]
    pub cluster_addr: String,
    /// What people call the node [default: its cluster address]
    #[arg(long)]
    pub name: Option<String>,
    /// The machine that it runs on: copies go to different ones [default: the node's name]
    #[arg(long)]
    pub host: Option<String>,
    /// The rack that the machine is in
    #[arg(long, default_value = "")]
    pub rack: String,
    /// The data centre or room that the rack is in
    #[arg(long, default_value = "")]
    pub zone: String,
    /// What it does, separated by commas: `manager` (it votes on what the cluster is), `target` (it serves its disks), `gateway` (it serves S3).
    /// A cluster has an odd number of managers, best on machines that fail apart
    #[arg(long, value_delimiter = ',', default_value = "manager,target,gateway")]
    pub roles: Vec<Role>,
    /// Plain connections to and from other machines, in a cluster without TLS: whoever can read the network reads objects, whoever can change
    /// packets changes them. Only where everybody on the network is trusted
    #[arg(long)]
    pub trust_network: bool,
}

/// The first node.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  trilith cluster init --data /srv/trilith\n  trilith serve --data /srv/trilith")]
pub struct InitArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    /// TLS between the nodes also if they are all on this machine [default: TLS unless the address is a loopback one]
    #[arg(long, conflicts_with = "trust_network")]
    pub tls: bool,
}

/// A node that joins.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Example, which asks for the token and takes it from no list of processes:\n  trilith cluster join - --via 10.0.0.1:9002 --cluster-addr 10.0.0.2:9002\n  trilith serve"
)]
pub struct JoinArgs {
    /// What `trilith cluster token` prints on a node of the cluster; - reads it from standard input. Others on this machine can see what stands here
    #[arg(env = "TRILITH_CLUSTER_TOKEN", hide_env_values = true)]
    pub token: String,
    /// Cluster addresses of nodes that belong to it, separated by commas
    #[arg(long, required = true, value_delimiter = ',')]
    pub via: Vec<String>,
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Whom to ask.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The exit code is 0 if every node is there and nothing is being recovered, else 1.\n\nExamples:\n  trilith cluster status --admin \
                  10.0.0.2:9001\n  trilith cluster status --wait 10m && echo the next node may be stopped"
)]
pub struct StatusArgs {
    /// Where the admin port of any node listens
    #[arg(long, env = "TRILITH_ADMIN_ADDR", default_value = "127.0.0.1:9001")]
    pub admin: String,
    /// Wait until every node is heard, every device is written to, and nothing is left to recover or to copy: at most so long (30s, 10m, 2h), and fail
    /// after that with what is left
    #[arg(long, value_name = "TIME", value_parser = patience)]
    pub wait: Option<Duration>,
    /// Print the server's JSON as it is
    #[arg(long)]
    pub json: bool,
}

/// A node that is lost.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Run it on another node of the cluster, whose server runs. The removed node has no vote any more,\n\
                  and nobody waits for its disks. Don't start its folder again: a machine that comes back joins\n\
                  with an empty one.\n\nExample:\n  trilith cluster remove node-3 --data /srv/trilith")]
pub struct RemoveArgs {
    /// The node's name, as `trilith cluster status` shows it; or the address of one whose join ended half-way
    pub name: String,
    #[command(flatten)]
    pub data: DataArgs,
    /// Also if it still serves, and if objects are lost that have copies on its disks alone
    #[arg(long)]
    pub force: bool,
}

/// A cluster to try.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Node i listens on 127.0.0.i: S3 on port 9000, admin on 9001, the others on 9002. Its data and its trilith.pid are\nunder DATA/node-i. Kill one and watch:\n  kill -9 $(cat trilith-dev/node-2/trilith.pid); trilith cluster status"
)]
pub struct DevArgs {
    /// How many nodes, up to 12. A cell has five gateways: further nodes serve their devices and chunks, and wait for a place
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=MAX_DEV_NODES))]
    pub nodes: u8,
    /// Folder for all nodes; made if absent
    #[arg(long, default_value = "./trilith-dev")]
    pub data: PathBuf,
    /// Address of the first node; the others have the next ones
    #[arg(long, default_value = "127.0.0.1")]
    pub first_addr: Ipv4Addr,
    /// TLS between the nodes, as between machines
    #[arg(long)]
    pub tls: bool,
    /// How far each node's device may grow
    #[arg(long, default_value = "10GiB")]
    pub device_size: String,
    /// Threads of each node that serve requests
    #[arg(long, default_value_t = 1)]
    pub cores: usize,
    /// Root access key, 3 characters or more [default: made at the first start, kept in the data folder]
    #[arg(long, env = "TRILITH_ROOT_USER", requires = "root_password")]
    pub root_user: Option<String>,
    /// Root secret key, 8 characters or more
    #[arg(long, env = "TRILITH_ROOT_PASSWORD", hide_env_values = true, requires = "root_user")]
    pub root_password: Option<String>,
}

/// A time that a person names.
pub fn patience(text: &str) -> Result<Duration, String> {
    crate::settings::time(text).ok_or_else(|| format!("a time such as 30s, 10m or 2h, not `{text}`"))
}

/// Runs a command.
pub fn run(command: &ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Init(args) => place::init(args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Open(args) => place::open(args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Join(args) => place::join(args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Token(args) => place::token(args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Status(args) => status::run(args),
        ClusterCommand::Remove(args) => remove::run(args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Dev(args) => dev::run(args).map(|()| ExitCode::SUCCESS),
    }
}
