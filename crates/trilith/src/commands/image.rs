//! `trilith image`: block images.

mod ask;
mod show;
mod transfer;

pub use ask::Images;

use crate::commands::cluster::DataArgs;
use crate::settings::size;
use anyhow::{Context, bail};
use bench::tell;
use block::protocol::{Ask, ImageInfo, Told};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `trilith image ...`
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "An image is a disk for a virtual machine or a file system. It takes space when it is written to. The commands run beside a\n\
                  node, with its data folder.\n\nA first try:\n  trilith image create vm1 --size 20GiB\n  trilith nbd vm1 --socket /tmp/vm1.sock\n  \
                  qemu-img info 'nbd+unix:///vm1?socket=/tmp/vm1.sock'\n\nA snapshot is named IMAGE@SNAPSHOT:\n  trilith image snapshot vm1@monday\n  \
                  trilith image clone vm1@monday vm2\n  trilith image rollback vm1@monday"
)]
pub struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Subcommand, Clone, Debug)]
enum ImageCommand {
    /// Make an image of zeros, which takes space when it is written to
    Create {
        name: String,
        /// How large it is, e.g. 20GiB
        #[arg(long, value_parser = bytes)]
        size: u64,
        /// How many copies each part of it has, on different nodes as far as there are any; without it as many as there are nodes with
        /// devices, at most 3
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
        copies: Option<u8>,
        /// Take the space now, so that no write finds the pool full
        #[arg(long)]
        preallocate: bool,
    },
    /// List images. SPACE counts all copies on all nodes that answer
    Ls {
        /// Those in the trash
        #[arg(long)]
        trash: bool,
    },
    /// Show an image: its size, its space with all copies, its copies, snapshots, and which node has it open
    Info { image: String },
    /// Give an image another name
    Rename { image: String, name: String },
    /// Make an image larger, or smaller with --shrink
    Resize {
        image: String,
        #[arg(long, value_parser = bytes)]
        size: u64,
        /// What lies beyond the new size is lost
        #[arg(long)]
        shrink: bool,
    },
    /// Keep what an image has now under a name, IMAGE@SNAPSHOT
    Snapshot { snapshot: String },
    /// Make an image that begins as a snapshot of another; it takes space only for what differs, and has as many copies
    Clone {
        /// IMAGE@SNAPSHOT
        snapshot: String,
        name: String,
    },
    /// Make an image what a snapshot of it is; what was written since is lost. Nothing may use it meanwhile
    Rollback {
        /// IMAGE@SNAPSHOT
        snapshot: String,
    },
    /// Copy what a clone reads from its parent, so that it needs the parent no more. It has no snapshots meanwhile
    Flatten { name: String },
    /// Remove images, which go to the trash, or snapshots (IMAGE@SNAPSHOT), which do not
    Rm {
        #[arg(required = true)]
        names: Vec<String>,
        /// Also images with snapshots
        #[arg(long)]
        with_snapshots: bool,
    },
    /// Take an image out of the trash
    Restore {
        /// As `trilith image ls --trash` shows it
        id: u64,
        name: String,
    },
    /// Remove what is in the trash for good. All nodes with parts of it must answer
    Purge {
        /// As `trilith image ls --trash` shows it; all without one
        id: Option<u64>,
        /// Without an id: all that is in the trash
        #[arg(long)]
        all: bool,
    },
    /// Open an image again although devices with parts of it were given up: these parts read as zeros
    AcceptLosses { image: String },
    /// End the node that has an image open, if it does not answer any more
    Unlock {
        image: String,
        /// Say that no client of that node goes on writing
        #[arg(long, required = true)]
        force: bool,
    },
    /// Write an image, or IMAGE@SNAPSHOT, to a raw file; - for the standard output
    Export { image: String, file: PathBuf },
    /// Make an image of a raw file
    #[command(
        after_help = "Other formats: `trilith image create`, `trilith nbd`, then\n  qemu-img convert -n disk.qcow2 'nbd+unix:///vm1?socket=/tmp/vm1.sock'"
    )]
    Import {
        file: PathBuf,
        name: String,
        /// As of `create`
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
        copies: Option<u8>,
    },
}

fn bytes(text: &str) -> Result<u64, String> {
    size("size", text).map_err(|error| error.to_string())
}

/// Runs a command.
pub fn run(args: &ImageArgs) -> anyhow::Result<()> {
    crate::commands::run(async {
        let server = Images::of_folder(&args.data.data)?;
        carry_out(&server, &args.command).await
    })
}

async fn carry_out(server: &Images, command: &ImageCommand) -> anyhow::Result<()> {
    match command.clone() {
        ImageCommand::Create { name, size, copies, preallocate } => {
            let ask = Ask::Create { name: name.clone(), size_bytes: size, copies, is_preallocated: preallocate };
            server.done(ask).await?;
            tell!("made {name}")?;
            tell!("  serve it  trilith nbd {name} --socket /tmp/{}.sock", name.replace('/', "-"))?;
        }
        ImageCommand::Ls { trash } => {
            let (found, unheard) = images(server, Ask::List { in_trash: trash }).await?;
            show::list(&found, trash)?;
            show::unheard(&unheard)?;
        }
        ImageCommand::Info { image } => {
            let (found, unheard) = images(server, Ask::Info { image }).await?;
            show::info(found.first().context("the server told of no image")?)?;
            show::unheard(&unheard)?;
        }
        ImageCommand::Rename { image, name } => {
            server.done(Ask::Rename { image: image.clone(), name: name.clone() }).await?;
            tell!("{image} is {name} now")?;
        }
        ImageCommand::Resize { image, size, shrink } => {
            server.done(Ask::Resize { image: image.clone(), size_bytes: size, may_shrink: shrink }).await?;
            tell!("{image} has {} now. Clients see it when they connect again", crate::commands::size::human(size))?;
        }
        ImageCommand::Snapshot { snapshot } => {
            let (image, name) = parts(&snapshot)?;
            server.done(Ask::Snapshot { image, name }).await?;
            tell!("made {snapshot}")?;
        }
        ImageCommand::Clone { snapshot, name } => {
            let (image, of) = parts(&snapshot)?;
            server.done(Ask::Clone { image, snapshot: of, name: name.clone() }).await?;
            tell!("made {name} of {snapshot}")?;
        }
        ImageCommand::Rollback { snapshot } => {
            let (image, of) = parts(&snapshot)?;
            server.done(Ask::Rollback { image: image.clone(), snapshot: of }).await?;
            tell!("{image} is what {snapshot} is")?;
        }
        other => return carry_out_rarer(server, other).await,
    }
    Ok(())
}

async fn carry_out_rarer(server: &Images, command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Flatten { name } => {
            server.done(Ask::Flatten { image: name.clone() }).await?;
            Ok(tell!("{name} stands on its own")?)
        }
        ImageCommand::Rm { names, with_snapshots } => remove(server, &names, with_snapshots).await,
        ImageCommand::Restore { id, name } => {
            server.done(Ask::Restore { id, name: name.clone() }).await?;
            Ok(tell!("{name} is back")?)
        }
        ImageCommand::Purge { id: None, all: false } => bail!("name an id of `trilith image ls --trash`, or say --all"),
        ImageCommand::Purge { id, .. } => {
            server.done(Ask::Purge { id }).await?;
            Ok(tell!("purged; its space goes back within some seconds")?)
        }
        ImageCommand::AcceptLosses { image } => {
            server.done(Ask::AcceptLosses { image: image.clone() }).await?;
            Ok(tell!("{image} can be opened; its lost parts read as zeros")?)
        }
        ImageCommand::Unlock { image, .. } => {
            server.done(Ask::Unlock { image: image.clone() }).await?;
            Ok(tell!("{image} has no holder any more")?)
        }
        ImageCommand::Export { image, file } => transfer::export(server, &image, &file).await,
        ImageCommand::Import { file, name, copies } => transfer::import(server, &file, &name, copies).await,
        _ => unreachable!("the others were carried out before"),
    }
}

async fn remove(server: &Images, names: &[String], with_snapshots: bool) -> anyhow::Result<()> {
    for name in names {
        match name.contains('@') {
            true => {
                let (image, snapshot) = parts(name)?;
                server.done(Ask::RemoveSnapshot { image, name: snapshot }).await?;
                tell!("removed {name}")?;
            }
            false => {
                server.done(Ask::Remove { image: name.clone(), with_snapshots }).await?;
                tell!("{name} is in the trash: `trilith image ls --trash`, `restore`, `purge`")?;
            }
        }
    }
    Ok(())
}

/// With the nodes that did not tell what they have.
async fn images(server: &Images, ask: Ask) -> anyhow::Result<(Vec<ImageInfo>, Vec<String>)> {
    match server.ask(ask).await? {
        Told::Images { images, unheard } => Ok((images, unheard)),
        other => bail!("the server answered something else: {other:?}"),
    }
}

async fn info(server: &Images, image: String) -> anyhow::Result<ImageInfo> {
    let (found, _) = images(server, Ask::Info { image }).await?;
    found.into_iter().next().context("the server told of no image")
}

/// `IMAGE@SNAPSHOT`.
fn parts(text: &str) -> anyhow::Result<(String, String)> {
    let (image, snapshot) =
        text.split_once('@').with_context(|| format!("a snapshot is named IMAGE@SNAPSHOT, not `{text}`"))?;
    Ok((image.to_owned(), snapshot.to_owned()))
}
