//! FUSE for file volumes, and the mount keeper that lets mounts outlive the server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use filesystem::client::Client;
use filesystem::protocol::{MountOptions, UnmountHow};
use filesystem::{LeftMount, MountDoor, Mounted};
use mount::keeper::{Held, Keeper, new_record};
use mount::{Keeping, ServeOptions, ServedMount, Unmount, UnmountError};
use tokio::runtime::Handle;

/// Threads that read the requests of a mount, for each core.
const THREADS_PER_CORE: usize = 2;
/// How long a folder that is to be mounted on may take to say what it is.
const FOLDER_PATIENCE: Duration = Duration::from_secs(2);
/// What the keeper's process says, in the data folder.
const KEEPER_LOG: &str = "mount-keeper.log";

/// Mounts file volumes by FUSE. What they ask is carried out on the runtime that asks for the mount.
pub struct FuseDoor {
    threads: usize,
    keeper: Arc<Keeper>,
}

impl FuseDoor {
    /// Of the server with this data folder.
    pub fn new(cores: usize, data: &Path) -> FuseDoor {
        let folder = data.to_owned();
        let keeper = Arc::new(Keeper::new(data, Box::new(move |listener| start_keeper(&folder, listener))));
        FuseDoor { threads: (cores * THREADS_PER_CORE).clamp(2, mount::MAX_THREADS), keeper }
    }

    fn options(&self, volume: &str, options: &MountOptions) -> ServeOptions {
        ServeOptions {
            source: volume.to_owned(),
            allow_other: !options.is_private,
            read_only: options.is_read_only,
            threads: self.threads,
            ..ServeOptions::default()
        }
    }
}

/// Starts the keeper's process. What is started here starts another and ends, so that the keeper is no child of the server.
fn start_keeper(data: &Path, listener: OwnedFd) -> io::Result<()> {
    let log = OpenOptions::new().append(true).create(true).open(data.join(KEEPER_LOG))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("trilith").arg("keep-mounts").arg("--data").arg(std::path::absolute(data)?);
    let status = command.stdin(listener).stdout(Stdio::null()).stderr(log).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended with {status}; {KEEPER_LOG} may say why"))) }
}

impl MountDoor for FuseDoor {
    fn record(&self) -> io::Result<File> {
        new_record()
    }

    fn mount(
        &self,
        client: Arc<Client>,
        volume: &str,
        point: &Path,
        options: &MountOptions,
        label: Vec<u8>,
    ) -> Result<Box<dyn Mounted>, String> {
        let keeping = Keeping { keeper: self.keeper.clone(), label };
        let served = mount::serve(client, point, &self.options(volume, options), Handle::current(), Some(&keeping));
        served.map(FuseMount::boxed).map_err(|error| error.to_string())
    }

    fn clear(&self, point: &Path) -> Result<(), String> {
        // A mount that has stalled never answers.
        let (sender, answer) = sync_channel(1);
        let folder = point.to_owned();
        let look = std::thread::Builder::new().name("look-at-folder".to_owned());
        let looks = look.spawn(move || sender.send(std::fs::metadata(folder).err().and_then(|error| error.raw_os_error())));
        looks.map_err(|error| error.to_string())?;
        let found = answer
            .recv_timeout(FOLDER_PATIENCE)
            .map_err(|_| format!("{0} does not answer: end what is mounted there with `umount -f -l {0}`", point.display()))?;
        // Any answer but this one is of a folder that can be mounted on, or says later why it can't.
        if found == Some(ENOTCONN)
            && let Err(error) = mount::unmount(point, Unmount::Detach)
        {
            tracing::warn!(point = %point.display(), %error, "the mount of a server that died is still there");
        }
        Ok(())
    }

    fn left(&self) -> Result<Vec<Box<dyn LeftMount>>, String> {
        let held = self.keeper.take().map_err(|error| error.to_string())?;
        let left = |held: Held| {
            let left = LeftFuseMount { held, threads: self.threads, keeper: self.keeper.clone() };
            Box::new(left) as Box<dyn LeftMount>
        };
        Ok(held.into_iter().map(left).collect())
    }

    fn look(&self) {
        match self.keeper.look() {
            Ok(false) => {}
            Ok(true) => tracing::warn!("the mount keeper had ended: another one keeps the mounts now"),
            Err(error) => tracing::warn!(%error, "mounts end with this server: nothing keeps them"),
        }
    }
}

struct LeftFuseMount {
    held: Held,
    threads: usize,
    keeper: Arc<Keeper>,
}

impl LeftMount for LeftFuseMount {
    fn label(&self) -> &[u8] {
        &self.held.label
    }

    fn record(&self) -> io::Result<File> {
        self.held.record.try_clone()
    }

    fn is_in_place(&self) -> bool {
        self.held.is_in_place()
    }

    fn resume(self: Box<Self>, client: &Arc<Client>, volume: &str, options: &MountOptions) -> Result<Box<dyn Mounted>, String> {
        let LeftFuseMount { held, threads, keeper } = *self;
        let options = FuseDoor { threads, keeper: keeper.clone() }.options(volume, options);
        let served = mount::resume(held, client, &options, Handle::current(), &keeper);
        served.map(FuseMount::boxed).map_err(|error| error.to_string())
    }

    fn give_up(self: Box<Self>) {
        mount::give_up(&self.held, &self.keeper);
    }
}

/// "Transport endpoint is not connected": a mount that no process serves.
const ENOTCONN: i32 = 107;

struct FuseMount(ServedMount);

impl FuseMount {
    fn boxed(served: ServedMount) -> Box<dyn Mounted> {
        Box::new(FuseMount(served))
    }
}

impl Mounted for FuseMount {
    fn unmount(&self, how: UnmountHow) -> Result<(), String> {
        let how = match how {
            UnmountHow::Clean => Unmount::Clean,
            UnmountHow::Lazy => Unmount::Detach,
            UnmountHow::Force => Unmount::Abort,
        };
        match self.0.unmount(how) {
            Ok(()) | Err(UnmountError::NotMounted { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_over(&self) -> bool {
        self.0.wait_for(Duration::ZERO).is_some()
    }

    fn is_in_place(&self) -> bool {
        self.0.is_in_place()
    }

    fn stop(&self) -> bool {
        if self.0.is_kept() {
            self.0.stop();
        }
        self.0.is_kept()
    }

    fn is_idle(&self) -> bool {
        self.is_over() && self.0.in_flight() == 0
    }

    fn abandon(&self) -> usize {
        self.0.abandon()
    }
}
