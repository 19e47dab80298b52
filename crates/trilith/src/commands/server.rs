//! The server of a data folder, asked by a command that runs beside it.

use crate::place::Place;
use anyhow::{Context, bail};
use bytes::Bytes;
use env::Env;
use net::{Caller, RemoteCaller, ServiceTag};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer may take: removing a snapshot of an image copies what the next one needs.
const PATIENCE: Duration = Duration::from_secs(600);

/// A service of a server that runs.
pub struct Server {
    env: Env,
    caller: Box<dyn Caller>,
    data: String,
}

impl Server {
    /// The one with this data folder.
    pub fn of_folder(data: &Path, service: ServiceTag) -> anyhow::Result<Server> {
        let Some(place) = Place::read(data)? else {
            bail!(
                "{} is no node's data folder: start one with `trilith serve`, or name the folder with --data",
                data.display()
            );
        };
        let env = Env::real_with_cores(1);
        let caller = Arc::new(RemoteCaller::new(&env, place.network(&env, data)?, &place.address, place.identity()?));
        Ok(Server { env, caller: Box::new(caller.service(service)), data: data.display().to_string() })
    }

    /// Its answer.
    pub async fn ask<T: DeserializeOwned>(&self, asked: &impl Serialize) -> anyhow::Result<T> {
        let asked = Bytes::from(postcard::to_stdvec(asked).context("writing the request")?);
        let answer = self.caller.call(asked, self.env.now() + PATIENCE).await;
        let answer = answer.with_context(|| format!("asking the server of {}: is it running?", self.data))?;
        postcard::from_bytes(&answer).context("this version does not understand the server's answer")
    }
}
