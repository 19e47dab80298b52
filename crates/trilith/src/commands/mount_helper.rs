//! What mount(8) and `/etc/fstab` call to mount a volume: this program, by the name [`NAME`].
//!
//! | mount(8) calls | what is done |
//! |---|---|
//! | `mount.fuse.trilith home /mnt -o ro,data=/srv/trilith` | `trilith mount home /mnt --detach --read-only --data /srv/trilith` |
//! | `mount.fuse.trilith home /mnt -o remount,ro` | the kernel changes the mount that is there; the server is not asked |
//!
//! The command line is that of mount(8), "External helpers".

use ::mount::remount;
use anyhow::{Context, bail};
use clap::Parser;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// mount(8) looks for it in `/sbin`, for the type `fuse.trilith`.
pub const NAME: &str = "mount.fuse.trilith";

/// Options that each mount has anyway, or that mean something to mount(8) alone.
const PASSED_OVER: [&str; 21] = [
    "",
    "rw",
    "nosuid",
    "nodev",
    "exec",
    "async",
    "sync",
    "dirsync",
    "noatime",
    "nodiratime",
    "relatime",
    "defaults",
    "allow_other",
    "default_permissions",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "nouser",
    "silent",
];
/// The same, with more behind them.
const PASSED_OVER_BEGINNINGS: [&str; 3] = ["x-", "X-", "comment="];
/// Options with a value, and the words of `trilith mount` that they stand for.
const WITH_VALUE: [(&str, &str); 5] =
    [("data", "--data"), ("cluster", "--cluster"), ("key_file", "--key-file"), ("log", "--log"), ("wait", "--wait")];
/// Options without one.
const PLAIN: [(&str, &str); 3] = [("ro", "--read-only"), ("private", "--private"), ("exclusive", "--exclusive")];

/// Mount a file volume, as mount(8) asks for it
#[derive(Parser, Debug)]
#[command(
    name = NAME,
    version,
    after_help = "Options of -o:\n  data=FOLDER  the data folder of this machine's node\n  wait=TIME    wait at most so long for a server that starts\n  \
                  ro, private, exclusive  as --read-only, --private and --exclusive of `trilith mount`\n  cluster=ADDRESS, key_file=FILE, log=FILE  as those of `trilith mount`, on a \
                  machine that is no node\n  remount      with ro or rw: changes a mount that is there\n\n\
                  A line of /etc/fstab:\n  home /mnt/home fuse.trilith data=/var/lib/trilith,wait=1m,nofail 0 0"
)]
struct HelperArgs {
    /// The volume
    volume: String,
    /// An existing folder
    folder: PathBuf,
    /// Options, with commas between them
    #[arg(short = 'o', value_delimiter = ',')]
    options: Vec<String>,
    /// Look at the options, and mount nothing
    #[arg(short = 'f')]
    is_fake: bool,
    /// Pass over options that are not known
    #[arg(short = 's')]
    is_sloppy: bool,
    /// Say what was mounted
    #[arg(short = 'v')]
    is_verbose: bool,
    /// Write no /etc/mtab: there is none
    #[arg(short = 'n')]
    has_no_table: bool,
    /// The type, which is known
    #[arg(short = 't')]
    kind: Option<String>,
}

/// What the options ask for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// `trilith mount` with these words behind the volume and the folder.
    Mount(Vec<String>),
    Remount {
        read_only: bool,
    },
}

/// Whether mount(8) has called this program.
pub fn is_called(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| Path::new(name).file_name() == Some(OsStr::new(NAME)))
}

/// Does what mount(8) asks for.
pub fn run() -> anyhow::Result<()> {
    let args = HelperArgs::parse();
    let wanted = wanted(&args.options, args.is_sloppy)?;
    if args.is_fake {
        return Ok(());
    }
    match wanted {
        Wanted::Remount { read_only } => {
            let point = args.folder.canonicalize().with_context(|| format!("looking at {}", args.folder.display()))?;
            remount(&point, read_only).with_context(|| format!("mounting {} anew", point.display()))
        }
        Wanted::Mount(words) => {
            let mut command = Command::new("/proc/self/exe");
            command.arg0("trilith").arg("mount").arg(&args.volume).arg(&args.folder).args(&words);
            // A mount that went well is silent.
            command.stdout(if args.is_verbose { Stdio::inherit() } else { Stdio::null() });
            Err(command.exec()).context("starting `trilith mount`")
        }
    }
}

fn wanted(options: &[String], is_sloppy: bool) -> anyhow::Result<Wanted> {
    let (mut words, mut is_remount, mut read_only) = (vec!["--detach".to_owned()], false, false);
    for option in options {
        let of =
            |known: &[(&str, &'static str)], name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, word)| *word);
        let valued = option.split_once('=').and_then(|(name, value)| Some((of(&WITH_VALUE, name)?, value)));
        if let Some((word, value)) = valued {
            words.extend([word.to_owned(), value.to_owned()]);
        } else if let Some(word) = of(&PLAIN, option) {
            read_only |= option == "ro";
            words.push(word.to_owned());
        } else if option == "remount" {
            is_remount = true;
        } else if !is_passed_over(option) && !is_sloppy {
            bail!("`{option}` is no option of a volume's mount: `{NAME} --help` shows which are");
        }
    }
    Ok(if is_remount { Wanted::Remount { read_only } } else { Wanted::Mount(words) })
}

fn is_passed_over(option: &str) -> bool {
    PASSED_OVER.contains(&option) || PASSED_OVER_BEGINNINGS.iter().any(|beginning| option.starts_with(beginning))
}

#[cfg(test)]
mod tests;
