//! A node's place in a cluster: the file `cluster.toml` in the data folder, written by `trilith cluster init` and `join`. Without it
//! `trilith serve` is a server of its own.

use anyhow::{Context, bail};
use env::Env;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use types::{ClusterId, NodeIdentity};

/// The file in the data folder, readable by its owner only: it holds the cluster's secret.
const FILE: &str = "cluster.toml";
/// Marks a token, and says which version it is.
const TOKEN_MARK: &str = "trilith1";
/// What the secret is for: keys made of it for another purpose are others.
const IDENTITY_CONTEXT: &str = "Trilith 2026-11 identity of a cluster's connections";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub cluster: String,
    pub secret: String,
    /// This node's own identity. Two folders never have the same.
    pub identity: String,
    pub name: String,
    /// Where this node listens for the others.
    pub address: String,
    /// The machine: what fails together with this node.
    pub host: String,
    pub rack: String,
    pub zone: String,
    /// Members through which it joins; empty for the first node until it has formed the cluster, then its own address.
    pub via: Vec<String>,
}

/// What lets a node into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub cluster: ClusterId,
    pub secret: [u8; 16],
}

impl Token {
    /// Of a new cluster.
    pub fn new(env: &Env) -> Token {
        let mut token = Token { cluster: ClusterId::default(), secret: [0; 16] };
        env.fill_random(&mut token.cluster.0);
        env.fill_random(&mut token.secret);
        token
    }

    /// What a node's connections show to others of the cluster: nobody can tell it who does not know the secret.
    pub fn identity(&self, node: NodeIdentity) -> net::Identity {
        let key = [&self.cluster.0[..], &self.secret[..]].concat();
        let derived = blake3::derive_key(IDENTITY_CONTEXT, &key);
        net::Identity { cluster: ClusterId(*derived.first_chunk().expect("it has 32 bytes")), node }
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{TOKEN_MARK}.{}.{}", self.cluster, hex::encode(self.secret))
    }
}

impl FromStr for Token {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Token> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let [mark, cluster, secret] = parts[..] else {
            bail!("a token looks like {TOKEN_MARK}.CLUSTER.SECRET; `trilith cluster token` prints it on a node of the cluster")
        };
        if mark != TOKEN_MARK {
            bail!("a token begins with `{TOKEN_MARK}.`, this one with `{mark}.`: is it of another version of Trilith?");
        }
        let mut bytes = [0; 16];
        hex::decode_to_slice(secret, &mut bytes).context("the token's last part has 32 hexadecimal digits")?;
        Ok(Token { cluster: cluster.parse().context("the token's second part")?, secret: bytes })
    }
}

impl Place {
    /// The place that a data folder has, if any.
    pub fn read(data: &Path) -> anyhow::Result<Option<Place>> {
        let path = data.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let place: Place = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        place.token().and(place.node_identity().map(|_| ())).with_context(|| format!("in {}", path.display()))?;
        Ok(Some(place))
    }

    /// Gives an empty data folder its place. One that has data, or a place, is refused.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(data).with_context(|| format!("making the data folder {}", data.display()))?;
        if data.join("manager").exists() {
            bail!("{} holds a server of its own: a node of a cluster begins with an empty folder", data.display());
        }
        let path = data.join(FILE);
        if path.exists() {
            bail!("{} says that this folder is a node of a cluster already", path.display());
        }
        self.put(data)
    }

    /// The first node has formed its cluster. From now on it is a node like the others: were its part of the manager lost, it must not
    /// form another cluster under the same name.
    pub fn note_formed(&mut self, data: &Path) -> anyhow::Result<()> {
        if !self.via.is_empty() {
            return Ok(());
        }
        self.via = vec![self.address.clone()];
        self.put(data)
    }

    /// Whether this is the first node of a cluster that has been formed.
    pub fn has_formed(&self) -> bool {
        self.via == [self.address.clone()]
    }

    /// Writes the file.
    fn put(&self, data: &Path) -> anyhow::Result<()> {
        let path = data.join(FILE);
        let text = toml::to_string(self).context("writing the place down")?;
        let temporary = data.join("cluster.toml.new");
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&temporary, &path)?;
            File::open(data)?.sync_all()
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    /// What lets others in.
    pub fn token(&self) -> anyhow::Result<Token> {
        format!("{TOKEN_MARK}.{}.{}", self.cluster, self.secret).parse()
    }

    /// What this node's connections show to others.
    pub fn identity(&self) -> anyhow::Result<net::Identity> {
        Ok(self.token()?.identity(self.node_identity()?))
    }

    /// This node's identity.
    pub fn node_identity(&self) -> anyhow::Result<NodeIdentity> {
        self.identity.parse().context("the node's identity has 32 hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token { cluster: ClusterId([7; 16]), secret: [9; 16] }
    }

    #[test]
    fn tokens_come_back_and_others_are_refused_with_a_reason() {
        assert_eq!(token().to_string().parse::<Token>().unwrap(), token());
        for wrong in ["", "abc", "trilith1.12.34", "trilith2.00.00"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
        let other = Token { secret: [8; 16], ..token() };
        let node = NodeIdentity([3; 16]);
        assert_ne!(token().identity(node), other.identity(node));
    }

    #[test]
    fn a_folder_gets_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            cluster: token().cluster.to_string(),
            secret: hex::encode(token().secret),
            identity: NodeIdentity([3; 16]).to_string(),
            name: "a".to_owned(),
            address: "127.0.0.1:9002".to_owned(),
            host: "a".to_owned(),
            rack: String::new(),
            zone: String::new(),
            via: vec!["127.0.0.2:9002".to_owned()],
        };
        assert_eq!(Place::read(folder.path()).unwrap(), None);
        place.write(folder.path()).unwrap();
        assert_eq!(Place::read(folder.path()).unwrap(), Some(place.clone()));
        assert!(place.write(folder.path()).unwrap_err().to_string().contains("already"));
        assert_eq!(place.token().unwrap(), token());
    }
}
