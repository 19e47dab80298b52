//! Where a server that is stopped keeps its data: what `fsck` and `device forget` work on.

use std::path::PathBuf;

use clap::Args;

use crate::settings::{ServeArgs, Settings};

#[derive(Args, Clone, Debug)]
pub struct StoppedServer {
    /// The data folder [default: ./trilith-data]
    #[arg(long, env = "TRILITH_DATA")]
    data: Option<PathBuf>,
    /// Configuration file [default: trilith.toml in the data folder, if there is one]
    #[arg(long, env = "TRILITH_CONFIG")]
    config: Option<PathBuf>,
    /// The server's disks, partitions or files that are there, separated by commas [default: one file in the data folder]
    #[arg(long, env = "TRILITH_DEVICES")]
    devices: Option<String>,
}

impl StoppedServer {
    /// The settings that the server has with these arguments.
    pub fn settle(&self) -> anyhow::Result<Settings> {
        let given = ServeArgs {
            data: self.data.clone(),
            config: self.config.clone(),
            devices: self.devices.clone(),
            ..ServeArgs::default()
        };
        given.settle()
    }
}
