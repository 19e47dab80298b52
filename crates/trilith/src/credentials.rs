//! The root credentials of a server: given by its settings, or made at the first start and kept beside the data.

use anyhow::{Context, bail};
use env::Env;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file in the data folder, readable by its owner only.
const FILE: &str = "credentials";
/// Letters of a generated key: no look-alikes.
const LETTERS: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
const USER_LETTERS: usize = 20;
const PASSWORD_LETTERS: usize = 40;

/// An access key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// Where credentials came from.
pub enum Origin {
    Settings,
    File,
    /// Just made: to be shown once.
    New(PathBuf),
}

/// The root credentials to serve with.
pub fn root(env: &Env, data: &Path, given: Option<&(String, String)>) -> anyhow::Result<(Credentials, Origin)> {
    if let Some((user, password)) = given {
        if user.len() < 3 || password.len() < 8 {
            bail!("the root user has 3 characters or more, the root password 8 or more");
        }
        return Ok((Credentials { user: user.clone(), password: password.clone() }, Origin::Settings));
    }
    if let Some(kept) = kept(data)? {
        return Ok((kept, Origin::File));
    }
    let made = Credentials { user: random_text(env, USER_LETTERS), password: random_text(env, PASSWORD_LETTERS) };
    let path = data.join(FILE);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    write!(file, "access_key = {}\nsecret_key = {}\n", made.user, made.password)?;
    file.sync_all()?;
    Ok((made, Origin::New(path)))
}

/// The credentials in the data folder, if there are any.
pub fn kept(data: &Path) -> anyhow::Result<Option<Credentials>> {
    let path = data.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.split_once('=').filter(|(name, _)| name.trim() == key));
        line.map(|(_, value)| value.trim().to_owned()).with_context(|| format!("{} lacks `{key} = ...`", path.display()))
    };
    Ok(Some(Credentials { user: value("access_key")?, password: value("secret_key")? }))
}

fn random_text(env: &Env, letters: usize) -> String {
    (0..letters).map(|_| LETTERS[env.random_below(LETTERS.len() as u64) as usize] as char).collect()
}
