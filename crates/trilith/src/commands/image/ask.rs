//! The server of a data folder, asked about images.

use crate::place::Place;
use anyhow::{Context, bail};
use block::protocol::{Ask, Asked, IMAGES, Told};
use bytes::Bytes;
use env::Env;
use net::{Caller, RemoteCaller};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take: removing a snapshot copies what the next one needs.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server that runs.
pub struct Server {
    env: Env,
    caller: Box<dyn Caller>,
    data: String,
}

impl Server {
    /// The one with this data folder.
    pub fn of_folder(data: &Path) -> anyhow::Result<Server> {
        let Some(place) = Place::read(data)? else {
            bail!(
                "{} is no node's data folder: start one with `trilith serve`, or name the folder with --data",
                data.display()
            );
        };
        let env = Env::real_with_cores(1);
        let caller = Arc::new(RemoteCaller::new(&env, place.network(&env, data)?, &place.address, place.identity()?));
        Ok(Server { env, caller: Box::new(caller.service(IMAGES)), data: data.display().to_string() })
    }

    /// Its answer; a refusal is an error.
    pub async fn ask(&self, ask: Ask) -> anyhow::Result<Told> {
        let asked = postcard::to_stdvec(&Asked { ask, is_forwarded: false }).context("writing the request")?;
        let asked = Bytes::from(asked);
        let answer = self.caller.call(asked, self.env.now() + PATIENCE).await;
        let answer = answer.with_context(|| format!("asking the server of {}: is it running?", self.data))?;
        match postcard::from_bytes(&answer).context("this version does not understand the server's answer")? {
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
