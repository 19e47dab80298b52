//! `trilith object`: files to objects and back.

mod copy;
mod get;
mod list;
mod put;
mod remove;

use crate::client::ClientArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Objects on their way at once, in recursive commands.
const TRANSFERS_AT_ONCE: usize = 8;

/// `trilith object ...`
#[derive(Args, Clone, Debug)]
pub struct ObjectArgs {
    #[command(subcommand)]
    command: ObjectCommand,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Clone, Debug)]
enum ObjectCommand {
    /// Store a file, standard input, or a folder
    #[command(
        after_help = "Examples:\n  trilith object put cat.jpg photos/2024/cat.jpg\n  trilith object put cat.jpg photos/2024/     \
                            # keeps the file's name\n  tar c src | trilith object put - backups/src.tar\n  trilith object put \
                            --recursive ./src backups/src"
    )]
    Put {
        /// File, `-` for standard input, or a folder with --recursive. A disk or a pipe is read to its end
        source: PathBuf,
        /// BUCKET/KEY; BUCKET/PREFIX for a folder
        target: String,
        /// Store all files below the folder
        #[arg(long, short)]
        recursive: bool,
        /// Media type, such as image/jpeg
        #[arg(long)]
        content_type: Option<String>,
    },
    /// Fetch an object, or all below a prefix
    #[command(
        after_help = "Examples:\n  trilith object get photos/2024/cat.jpg\n  trilith object get photos/2024/cat.jpg - | wc -c\n  \
                            trilith object get --recursive backups/src ./src"
    )]
    Get {
        /// BUCKET/KEY; BUCKET/PREFIX with --recursive
        source: String,
        /// File, `-` for standard output [default: the key's last part]; a folder with --recursive. What is no file,
        /// such as a disk, is written to as it stands
        target: Option<PathBuf>,
        /// Fetch every object below the prefix
        #[arg(long, short)]
        recursive: bool,
    },
    /// List objects
    #[command(
        after_help = "Examples:\n  trilith object ls photos\n  trilith object ls photos/2024/\n  trilith object ls --recursive photos"
    )]
    Ls {
        /// BUCKET or BUCKET/PREFIX
        target: String,
        /// Descend: list names with everything after the next slash too
        #[arg(long, short)]
        recursive: bool,
    },
    /// Remove objects
    #[command(after_help = "Examples:\n  trilith object rm photos/2024/cat.jpg\n  trilith object rm --recursive photos/2024/")]
    Rm {
        /// BUCKET/KEY; BUCKET or BUCKET/PREFIX with --recursive
        #[arg(required = true)]
        targets: Vec<String>,
        /// Remove every object whose name starts with the prefix
        #[arg(long, short)]
        recursive: bool,
    },
    /// Copy an object within the server
    #[command(after_help = "Example:\n  trilith object cp photos/2024/cat.jpg backups/cat.jpg")]
    Cp {
        /// BUCKET/KEY
        source: String,
        /// BUCKET/KEY; a key that ends in a slash, or none, keeps the source's last part
        target: String,
    },
}

/// Runs the command.
pub fn run(args: &ObjectArgs) -> anyhow::Result<()> {
    super::run(async {
        let s3 = args.client.connect()?;
        match &args.command {
            ObjectCommand::Put { source, target, recursive, content_type } => {
                let headers = content_type.iter().map(|media_type| ("content-type", media_type.clone())).collect::<Vec<_>>();
                if *recursive {
                    put::folder(&s3, source, target, &headers).await
                } else {
                    put::one(&s3, source, target, &headers).await
                }
            }
            ObjectCommand::Get { source, target, recursive } => {
                let target = target.as_deref();
                if *recursive { get::folder(&s3, source, target).await } else { get::one(&s3, source, target).await }
            }
            ObjectCommand::Ls { target, recursive } => list::print(&s3, target, *recursive).await,
            ObjectCommand::Rm { targets, recursive } => {
                if *recursive {
                    remove::below(&s3, targets).await
                } else {
                    remove::each(&s3, targets).await
                }
            }
            ObjectCommand::Cp { source, target } => copy::one(&s3, source, target).await,
        }
    })
}
