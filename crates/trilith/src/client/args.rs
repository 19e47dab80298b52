//! How a command finds its server and proves who asks.

use super::S3;
use super::http::Http;
use crate::credentials;
use anyhow::{Context, bail};
use bench::s3::sigv4::{Credentials, Signer};
use clap::Args;
use env::Env;
use std::path::PathBuf;

/// Flags of every command that speaks S3.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Server and credentials")]
pub struct ClientArgs {
    /// Where S3 listens
    #[arg(long, env = "TRILITH_ENDPOINT", default_value = "http://127.0.0.1:9000", global = true)]
    pub endpoint: String,
    /// Access key [default: TRILITH_ROOT_USER, then AWS_ACCESS_KEY_ID, then the data folder's `credentials` file]
    #[arg(long, global = true)]
    pub access_key: Option<String>,
    /// Secret key [default: from where the access key comes]
    #[arg(long, global = true)]
    pub secret_key: Option<String>,
    /// Data folder of a server on this machine, whose credentials file is used if nothing else names any
    #[arg(long, env = "TRILITH_DATA", default_value = "./trilith-data", global = true)]
    pub data: PathBuf,
    /// Region that signatures name
    #[arg(long, env = "TRILITH_REGION", default_value = "us-east-1", global = true)]
    pub region: String,
    /// Send no signature: only what bucket policies allow to everybody
    #[arg(long, global = true)]
    pub anonymous: bool,
}

impl ClientArgs {
    /// A client of the server that these flags name.
    pub fn connect(&self) -> anyhow::Result<S3> {
        let http = Http::new(&self.endpoint)?;
        let signer = if self.anonymous { None } else { Some(Signer::new(self.credentials()?, self.region.clone())) };
        Ok(S3::new(http, signer, Env::real_with_cores(1)))
    }

    fn credentials(&self) -> anyhow::Result<Credentials> {
        if self.access_key.is_some() != self.secret_key.is_some() {
            bail!("--access-key and --secret-key belong together: give both, or neither");
        }
        let named = self.access_key.clone().zip(self.secret_key.clone());
        let pair = named
            .or_else(|| from_environment("TRILITH_ROOT_USER", "TRILITH_ROOT_PASSWORD"))
            .or_else(|| from_environment("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"));
        if let Some((access_key, secret_key)) = pair {
            return Ok(Credentials { access_key, secret_key });
        }
        let kept = credentials::kept(&self.data).context("looking for credentials")?;
        match kept {
            Some(kept) => Ok(Credentials { access_key: kept.user, secret_key: kept.password }),
            None => bail!(
                "no credentials: give --access-key and --secret-key, or set TRILITH_ROOT_USER and TRILITH_ROOT_PASSWORD (or \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or name the server's data folder with --data; {} has none. \
                 --anonymous sends requests without any",
                self.data.display()
            ),
        }
    }
}

fn from_environment(user: &str, password: &str) -> Option<(String, String)> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    set(user).zip(set(password))
}
