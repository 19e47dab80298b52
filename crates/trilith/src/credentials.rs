//! The root credentials of a server: given by its settings, or made at the first start and kept beside the data.

use anyhow::{Context, bail};
use env::Env;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file in the data folder, readable by its owner only.
const FILE: &str = "credentials";
/// What becomes the file when it is complete.
const TEMPORARY: &str = "credentials.new";
/// The line `shown = no`: nobody has seen the pair yet.
const SHOWN: &str = "shown";
const NOT_YET: &str = "no";
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
    /// Made by this start, or by one that failed before it could show them: to be shown now, and noted as shown then.
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
    if let Some(file) = read(data)? {
        let origin = if file.is_shown { Origin::File } else { Origin::New(data.join(FILE)) };
        return Ok((file.pair, origin));
    }
    let made = Credentials { user: random_text(env, USER_LETTERS), password: random_text(env, PASSWORD_LETTERS) };
    write(data, &made, false)?;
    Ok((made, Origin::New(data.join(FILE))))
}

/// Notes that a new pair has been shown to a person. A crash before that shows it again, which is better than never.
pub fn note_shown(data: &Path, pair: &Credentials) -> anyhow::Result<()> {
    write(data, pair, true)
}

/// The credentials in the data folder, if there are any.
pub fn kept(data: &Path) -> anyhow::Result<Option<Credentials>> {
    Ok(read(data)?.map(|file| file.pair))
}

/// What the file holds.
struct Kept {
    pair: Credentials,
    /// False from the pair's making to the first start that comes far enough to show it.
    is_shown: bool,
}

fn read(data: &Path) -> anyhow::Result<Option<Kept>> {
    let path = data.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if text.trim().is_empty() {
        tracing::warn!(file = %path.display(), "the file of credentials is empty, which counts as none");
        return Ok(None);
    }
    let find = |key: &str| {
        let line = text.lines().find_map(|line| line.split_once('=').filter(|(name, _)| name.trim() == key));
        line.map(|(_, value)| value.trim().to_owned())
    };
    let value = |key: &str| find(key).with_context(|| format!("{} lacks `{key} = ...`", path.display()));
    let pair = Credentials { user: value("access_key")?, password: value("secret_key")? };
    Ok(Some(Kept { pair, is_shown: find(SHOWN).is_none_or(|value| value != NOT_YET) }))
}

/// Replaces the file as a whole and durably: a crash leaves the old one or the new one.
fn write(data: &Path, pair: &Credentials, is_shown: bool) -> anyhow::Result<()> {
    let (path, temporary) = (data.join(FILE), data.join(TEMPORARY));
    let mut text = format!("access_key = {}\nsecret_key = {}\n", pair.user, pair.password);
    if !is_shown {
        text.push_str(&format!("{SHOWN} = {NOT_YET}\n"));
    }
    let replace = || -> std::io::Result<()> {
        // What a crash left there may have other permissions; a new file has ours.
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(data)?.sync_all()
    };
    replace().with_context(|| format!("writing {}", path.display()))
}

fn random_text(env: &Env, letters: usize) -> String {
    (0..letters).map(|_| LETTERS[env.random_below(LETTERS.len() as u64) as usize] as char).collect()
}

#[cfg(test)]
mod tests;
