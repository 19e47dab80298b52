//! FUSE for file volumes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filesystem::client::Client;
use filesystem::protocol::{MountOptions, UnmountHow};
use filesystem::{MountDoor, Mounted};
use mount::{ServeOptions, ServedMount, Unmount, UnmountError};
use tokio::runtime::Handle;

/// Threads that read the requests of a mount, for each core.
const THREADS_PER_CORE: usize = 2;

/// Mounts file volumes by FUSE. What they ask is carried out on the runtime that asks for the mount.
pub struct FuseDoor {
    threads: usize,
}

impl FuseDoor {
    pub fn new(cores: usize) -> FuseDoor {
        FuseDoor { threads: (cores * THREADS_PER_CORE).clamp(2, mount::MAX_THREADS) }
    }
}

impl MountDoor for FuseDoor {
    fn mount(
        &self,
        client: Arc<Client>,
        volume: &str,
        point: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, String> {
        let options = ServeOptions {
            source: volume.to_owned(),
            allow_other: !options.is_private,
            read_only: options.is_read_only,
            threads: self.threads,
            ..ServeOptions::default()
        };
        let served = mount::serve(client, point, &options, Handle::current());
        served.map(|served| Box::new(FuseMount(served)) as Box<dyn Mounted>).map_err(|error| error.to_string())
    }

    fn clear(&self, point: &Path) {
        // Any answer but this one is of a folder that can be mounted on, or says later why it can't.
        let is_dead = std::fs::metadata(point).is_err_and(|error| error.raw_os_error() == Some(ENOTCONN));
        if is_dead && let Err(error) = mount::unmount(point, Unmount::Detach) {
            tracing::warn!(point = %point.display(), %error, "the mount of a server that died is still there");
        }
    }
}

/// "Transport endpoint is not connected": a mount that no process serves.
const ENOTCONN: i32 = 107;

struct FuseMount(ServedMount);

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
}
