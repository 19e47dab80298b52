//! `trilith nbd`: images for NBD clients.

use super::cluster::DataArgs;
use super::image::Images;
use super::table;
use anyhow::bail;
use bench::output::Printed;
use bench::tell;
use block::protocol::{Ask, ListenAt, Serving, Told};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve images as network block devices, which qemu, the Linux kernel and libnbd's tools attach
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The running server serves them until it is told otherwise, also after it starts again. An export has the name of its image.\n\n\
                  Examples:\n  trilith nbd vm1 --socket /run/vm1.sock\n  trilith nbd vm1 vm2 --addr 127.0.0.1:10809\n  trilith nbd --ls\n  \
                  trilith nbd --end --socket /run/vm1.sock"
)]
pub struct NbdArgs {
    /// The images
    #[arg(required_unless_present_any = ["ls", "end"])]
    images: Vec<String>,
    /// A Unix socket, which only its owner may use
    #[arg(long, conflicts_with = "addr")]
    socket: Option<PathBuf>,
    /// An address and a port, such as 127.0.0.1:10809. NBD asks for no credentials: any client that reaches the port reads and writes the images
    #[arg(long)]
    addr: Option<SocketAddr>,
    /// List what is served
    #[arg(long, conflicts_with_all = ["images", "end"])]
    ls: bool,
    /// Serve nothing there any more
    #[arg(long, conflicts_with = "images")]
    end: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// Runs the command.
pub fn run(args: &NbdArgs) -> anyhow::Result<()> {
    super::run(async {
        let server = Images::of_folder(&args.data.data)?;
        if args.ls {
            return list(&server).await;
        }
        let at = listen_at(args)?;
        if args.end {
            server.done(Ask::EndServing { at: at.clone() }).await?;
            return Ok(tell!("{at} is closed")?);
        }
        server.done(Ask::Serve { images: args.images.clone(), at: at.clone() }).await?;
        for image in &args.images {
            attach(image, &at)?;
        }
        Ok(())
    })
}

fn listen_at(args: &NbdArgs) -> anyhow::Result<ListenAt> {
    match (&args.socket, args.addr) {
        (Some(path), _) => Ok(ListenAt::Socket(std::path::absolute(path)?)),
        (None, Some(address)) if address.port() == 0 => bail!("--addr: say which port; clients must find it again"),
        (None, Some(address)) => Ok(ListenAt::Address(address)),
        (None, None) => bail!("say where: --socket PATH or --addr ADDRESS:PORT"),
    }
}

async fn list(server: &Images) -> anyhow::Result<()> {
    let Told::Served(served) = server.ask(Ask::Served).await? else { bail!("the server answered something else") };
    let clients = |serving: &Serving| if serving.is_open { serving.clients.to_string() } else { "not open yet".to_owned() };
    let row = |serving: &Serving| [serving.at.to_string(), clients(serving), serving.images.join(", ")];
    let rows: Vec<[String; 3]> = served.iter().map(row).collect();
    Ok(table::print(["PLACE", "CLIENTS", "IMAGES"], &rows)?)
}

/// How clients attach an image, so that they come back after the server was away.
fn attach(image: &str, at: &ListenAt) -> Printed {
    let (uri, qemu) = match at {
        ListenAt::Socket(path) => {
            let path = path.display();
            (format!("nbd+unix:///{image}?socket={path}"), format!("server.type=unix,server.path={path}"))
        }
        ListenAt::Address(address) => {
            let (host, port) = (address.ip(), address.port());
            let qemu = format!("server.type=inet,server.host={host},server.port={port}");
            (format!("nbd://{address}/{image}"), qemu)
        }
    };
    tell!("{image} is served at {uri}")?;
    // nbd-client gives the device up when the server is away; qemu's client waits for it.
    tell!(
        "  kernel    qemu-nbd -c /dev/nbd0 -t --cache=none --image-opts driver=nbd,{qemu},export={image},reconnect-delay=60"
    )?;
    tell!("  qemu      -blockdev driver=nbd,node-name=disk0,{qemu},export={image},reconnect-delay=60")?;
    tell!("  a file    mkdir m && nbdfuse m/disk '{uri}'")?;
    tell!("  a copy    nbdcopy '{uri}' disk.raw     qemu-img convert -O qcow2 '{uri}' disk.qcow2")
}
