//! The server of a data folder, asked about file volumes.

use crate::commands::server::Server;
use anyhow::bail;
use filesystem::protocol::{Ask, FILES, Told};
use std::path::Path;

/// The file volumes of a server that runs.
pub struct Files(Server);

impl Files {
    /// Of the server with this data folder.
    pub fn of_folder(data: &Path) -> anyhow::Result<Files> {
        Ok(Files(Server::of_folder(data, FILES)?))
    }

    /// The answer; a refusal is an error.
    pub async fn ask(&self, ask: Ask) -> anyhow::Result<Told> {
        match self.0.ask(&ask).await? {
            Told::Refused(reason) => bail!("{reason}"),
            told => Ok(told),
        }
    }

    /// Has something done.
    pub async fn done(&self, ask: Ask) -> anyhow::Result<()> {
        match self.ask(ask).await? {
            Told::Done => Ok(()),
            other => bail!("the server answered something else: {other:?}"),
        }
    }
}
