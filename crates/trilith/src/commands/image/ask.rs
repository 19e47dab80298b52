//! The server of a data folder, asked about images.

use crate::commands::server::Server;
use anyhow::bail;
use block::protocol::{Ask, Asked, IMAGES, Told};
use std::path::Path;

/// The images of a server that runs.
pub struct Images(Server);

impl Images {
    /// Of the server with this data folder.
    pub fn of_folder(data: &Path) -> anyhow::Result<Images> {
        Ok(Images(Server::of_folder(data, IMAGES)?))
    }

    /// The answer; a refusal is an error.
    pub async fn ask(&self, ask: Ask) -> anyhow::Result<Told> {
        match self.0.ask(&Asked { ask, is_forwarded: false }).await? {
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
