//! `trilith chunk`: the chunk store, one chunk at a time.

mod outcome;
mod session;

use crate::commands::cluster::DataArgs;
use anyhow::{Context, bail};
use bench::{output, tell};
use bytes::Bytes;
use chunkstore::chunk_client::ChunkClient;
use clap::{Args, Subcommand};
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_id::ChunkId;
use format::chunk_place::MAX_CHUNK_COPIES;
use outcome::{explain, show};
use session::Session;
use std::io::Read;
use std::path::{Path, PathBuf};
use types::DeviceId;

/// Store and fetch chunks that the system names; see where they are, and move them
#[derive(Subcommand, Clone, Debug)]
#[command(
    after_help = "Chunks are what block images will stand on: up to 4 MiB, named by the system, in up to three copies, on\n\
                        different hosts. The commands run beside a node, with its data folder:\n  trilith chunk put photo.jpg --copies 1\n  \
                        trilith chunk put photo.jpg --data trilith-dev/node-1"
)]
pub enum ChunkCommand {
    /// Store a file as one chunk; prints its id
    Put(PutArgs),
    /// Fetch a chunk
    Get(GetArgs),
    /// Replace a chunk's content, which may not get longer than it was at first
    Modify(ModifyArgs),
    /// Remove chunks
    Rm(RmArgs),
    /// Move the copy on one device to another
    Relocate(RelocateArgs),
    /// Show what the lookup hosts, the maintenance unit and the nodes with the copies say of a chunk
    Locate(LocateArgs),
}

/// A new chunk.
#[derive(Args, Clone, Debug)]
pub struct PutArgs {
    /// What to store; - for the standard input
    pub file: PathBuf,
    /// Copies, on as many hosts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=MAX_CHUNK_COPIES as i64))]
    pub copies: u8,
    #[command(flatten)]
    pub data: DataArgs,
}

/// A chunk that is wanted.
#[derive(Args, Clone, Debug)]
pub struct GetArgs {
    /// As `trilith chunk put` printed it
    pub id: ChunkId,
    /// Where to; the standard output if nothing is said
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
}

/// A chunk and its new content.
#[derive(Args, Clone, Debug)]
pub struct ModifyArgs {
    pub id: ChunkId,
    /// The new content; - for the standard input
    pub file: PathBuf,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Chunks that nobody wants any more.
#[derive(Args, Clone, Debug)]
pub struct RmArgs {
    #[arg(required = true)]
    pub ids: Vec<ChunkId>,
    #[command(flatten)]
    pub data: DataArgs,
}

/// A copy that is to be elsewhere.
#[derive(Args, Clone, Debug)]
pub struct RelocateArgs {
    pub id: ChunkId,
    /// Number of the device that has the copy; `trilith chunk locate` shows them
    #[arg(long)]
    pub from: u32,
    /// Number of the device that shall have it [default: the least loaded one on another host]
    #[arg(long)]
    pub to: Option<u32>,
    #[command(flatten)]
    pub data: DataArgs,
}

/// A chunk to look for.
#[derive(Args, Clone, Debug)]
pub struct LocateArgs {
    pub id: ChunkId,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Runs a command.
pub fn run(command: &ChunkCommand) -> anyhow::Result<()> {
    crate::commands::run(async {
        match command {
            ChunkCommand::Put(args) => put(args).await,
            ChunkCommand::Get(args) => get(args).await,
            ChunkCommand::Modify(args) => modify(args).await,
            ChunkCommand::Rm(args) => remove(args).await,
            ChunkCommand::Relocate(args) => relocate(args).await,
            ChunkCommand::Locate(args) => locate(args).await,
        }
    })
}

/// A client for the experiments.
pub fn enter(data: PathBuf) -> bench::Entering {
    Box::pin(async move { Ok(Session::open(&data).await?.into_client()) })
}

async fn put(args: &PutArgs) -> anyhow::Result<()> {
    let content = read(&args.file)?;
    let session = Session::open(&args.data.data).await?;
    let id = session.finish(async |client| client.put(content, args.copies).await).await?;
    tell!("{id}")?;
    Ok(())
}

async fn get(args: &GetArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.data.data).await?;
    let content = session.finish(async |client| client.get(args.id).await).await.map_err(|error| explain(error, args.id))?;
    match &args.file {
        Some(path) => std::fs::write(path, &content).with_context(|| format!("writing {}", path.display())),
        None => Ok(output::bytes(&content)?),
    }
}

async fn modify(args: &ModifyArgs) -> anyhow::Result<()> {
    let content = read(&args.file)?;
    let session = Session::open(&args.data.data).await?;
    session.finish(async |client| client.modify(args.id, content).await).await.map_err(|error| explain(error, args.id))
}

async fn remove(args: &RmArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.data.data).await?;
    let remove_all = async |client: &ChunkClient| {
        for id in &args.ids {
            client.delete(*id).await.map_err(|error| explain(error, *id))?;
        }
        Ok(())
    };
    session.finish(remove_all).await
}

async fn relocate(args: &RelocateArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.data.data).await?;
    let (from, to) = (DeviceId(args.from), args.to.map(DeviceId));
    session.client().relocate(args.id, from, to).await.map_err(|error| explain(error, args.id))?;
    session.wait_until_moved(args.id, from).await
}

async fn locate(args: &LocateArgs) -> anyhow::Result<()> {
    let session = Session::open(&args.data.data).await?;
    let whereabouts = session.client().locate(args.id).await.map_err(|error| explain(error, args.id))?;
    show(&whereabouts)?;
    Ok(())
}

/// A file that fits a chunk.
fn read(path: &Path) -> anyhow::Result<Bytes> {
    let limit = u64::from(BLOCK_DATA_BYTES);
    let mut content = Vec::new();
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(limit + 1).read_to_end(&mut content),
        false => std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut content)),
    };
    read.with_context(|| format!("reading {}", path.display()))?;
    if content.is_empty() || content.len() as u64 > limit {
        bail!(
            "{} has {} bytes: a chunk has between 1 and {limit}",
            path.display(),
            if content.is_empty() { "no" } else { "too many" }
        );
    }
    Ok(Bytes::from(content))
}
