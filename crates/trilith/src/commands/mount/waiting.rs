//! `--wait`: for a server that starts, and for what it mounts by itself.

use super::{LOOK, mounts};
use crate::commands::volume::Files;
use anyhow::bail;
use env::Env;
use filesystem::protocol::MountOptions;
use mount::is_mounted;
use std::path::Path;
use std::time::Duration;

/// The server of a folder once it answers; the last failure where it does not within `patience`.
pub async fn for_server(data: &Path, patience: Duration) -> anyhow::Result<Files> {
    let env = Env::real_with_cores(1);
    let until = env.now() + patience;
    loop {
        let asked = match Files::of_folder(data) {
            Ok(server) => mounts(&server).await.map(|_| server),
            Err(error) => Err(error),
        };
        match asked {
            Err(_) if env.now() < until => env.sleep(LOOK).await,
            asked => return asked,
        }
    }
}

/// Whether the server has mounted the volume there by itself, with these options: it was told so before it stopped.
pub async fn for_mount(
    server: &Files,
    (volume, point): (&str, &Path),
    options: MountOptions,
    patience: Duration,
) -> anyhow::Result<bool> {
    let env = Env::real_with_cores(1);
    let until = env.now() + patience;
    loop {
        let all = mounts(server).await?;
        let Some(found) = all.iter().find(|mount| mount.point == point && mount.volume == volume && mount.options == options)
        else {
            return Ok(false);
        };
        if found.is_mounted {
            // The server learns a little later of one that was ended by umount(8).
            return Ok(is_mounted(point)?);
        }
        if env.now() >= until {
            bail!("the server has not mounted {volume} yet, and goes on trying: its log says why");
        }
        env.sleep(LOOK).await;
    }
}
