//! A node's place in its cluster: the file `cluster.toml` in the data folder.
//!
//! | written by | the node |
//! |---|---|
//! | `trilith serve` in an empty folder | is *lone*: the only one of its cluster, reached from its own machine through a socket in the folder |
//! | `trilith cluster open` in the folder of a lone one | listens at an address, and lets others in |
//! | `trilith cluster init` | the same, from its first start on |
//! | `trilith cluster join` | joins others |

use crate::volume_key::VolumeKey;
use anyhow::{Context, bail};
use env::Env;
use net::{Authority, LONE_ADDRESS, Network, TcpNetwork, TlsNetwork, UnixNetwork};
use node::{Role, Roles};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use types::{ClusterId, NodeIdentity};

/// The folder of the consensus log within the data folder.
pub const CONSENSUS_FOLDER: &str = "consensus";
/// The file in the data folder, readable by its owner only: it holds the cluster's secret.
const FILE: &str = "cluster.toml";
/// Marks a token of a cluster whose connections are plain.
const PLAIN_MARK: &str = "trilith1";
/// Marks a token of a cluster whose connections are TLS. What follows has the same form and is used in another way.
const TLS_MARK: &str = "trilith2";
/// What the secret is for: keys made of it for another purpose are others.
const IDENTITY_CONTEXT: &str = "Trilith 2026-11 identity of a cluster's connections";

/// What the file says. Whoever can read it can make certificates of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub cluster: String,
    pub secret: String,
    /// This node's own identity. Two folders never have the same.
    pub identity: String,
    pub name: String,
    /// Where this node listens for the others; [`LONE_ADDRESS`] if it is lone.
    pub address: String,
    /// The machine: what fails together with this node.
    pub host: String,
    pub rack: String,
    pub zone: String,
    /// Members through which it joins; empty for the first node until it has formed the cluster, then its own address.
    pub via: Vec<String>,
    /// Connections between nodes are TLS; the same at all nodes of a cluster.
    #[serde(default)]
    pub tls: bool,
    /// Plain connections are wanted even where others can listen.
    #[serde(default)]
    pub trust_network: bool,
    /// The node has taken part in its cluster.
    #[serde(default)]
    pub is_member: bool,
    /// What the node does, by the names of [`Role`].
    #[serde(default = "all_roles")]
    pub roles: Vec<String>,
}

fn all_roles() -> Vec<String> {
    Role::ALL.iter().map(Role::to_string).collect()
}

/// What lets a node into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub cluster: ClusterId,
    pub secret: [u8; 16],
    /// Connections of the cluster are TLS.
    pub tls: bool,
}

impl Token {
    /// Of a new cluster.
    pub fn new(env: &Env, tls: bool) -> Token {
        let mut token = Token { cluster: ClusterId::default(), secret: [0; 16], tls };
        env.fill_random(&mut token.cluster.0);
        env.fill_random(&mut token.secret);
        token
    }

    /// What a node's connections show to others of the cluster. With TLS, what its certificate must say too; without, a key that nobody has
    /// who does not know the secret, and that is proved and never said.
    pub fn identity(&self, node: NodeIdentity) -> net::Identity {
        if self.tls {
            return net::Identity { cluster: self.cluster, node };
        }
        let key = [&self.cluster.0[..], &self.secret[..]].concat();
        let derived = blake3::derive_key(IDENTITY_CONTEXT, &key);
        net::Identity { cluster: ClusterId(*derived.first_chunk().expect("it has 32 bytes")), node }
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.tls { TLS_MARK } else { PLAIN_MARK };
        write!(f, "{mark}.{}.{}", self.cluster, hex::encode(self.secret))
    }
}

impl FromStr for Token {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Token> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let [mark, cluster, secret] = parts[..] else {
            bail!("a token looks like {TLS_MARK}.CLUSTER.SECRET; `trilith cluster token` prints it on a node of the cluster")
        };
        if ![PLAIN_MARK, TLS_MARK].contains(&mark) {
            bail!(
                "a token begins with `{PLAIN_MARK}.` or `{TLS_MARK}.`, this one with `{mark}.`: is it of another version of Trilith?"
            );
        }
        let mut bytes = [0; 16];
        hex::decode_to_slice(secret, &mut bytes).context("the token's last part has 32 hexadecimal digits")?;
        Ok(Token { cluster: cluster.parse().context("the token's second part")?, secret: bytes, tls: mark == TLS_MARK })
    }
}

impl Place {
    /// The place of a lone node: the first of a new cluster, all roles in one process.
    pub fn lone(env: &Env) -> Place {
        let token = Token::new(env, false);
        let mut identity = NodeIdentity::default();
        env.fill_random(&mut identity.0);
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = if machine.is_empty() { "node-1".to_owned() } else { machine };
        Place {
            cluster: token.cluster.to_string(),
            secret: hex::encode(token.secret),
            identity: identity.to_string(),
            host: name.clone(),
            name,
            address: LONE_ADDRESS.to_owned(),
            rack: String::new(),
            zone: String::new(),
            via: Vec::new(),
            tls: false,
            trust_network: false,
            is_member: false,
            roles: all_roles(),
        }
    }

    /// The place that a server's folder has; an empty folder gets that of a lone node.
    pub fn of_server(env: &Env, data: &Path) -> anyhow::Result<Place> {
        if let Some(place) = Place::read(data)? {
            return Ok(place);
        }
        let place = Place::lone(env);
        place.write(data)?;
        Ok(place)
    }

    /// Whether no other node reaches it.
    pub fn is_lone(&self) -> bool {
        self.address == LONE_ADDRESS
    }

    /// The place that a data folder has, if any.
    pub fn read(data: &Path) -> anyhow::Result<Option<Place>> {
        let path = data.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let place: Place = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        let checked = place.token().and(place.node_identity().map(|_| ())).and(place.roles().map(|_| ()));
        checked.with_context(|| format!("in {}", path.display()))?;
        Ok(Some(place))
    }

    /// Gives an empty data folder its place. One that has data, or a place, is refused.
    pub fn write(&self, data: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(data).with_context(|| format!("making the data folder {}", data.display()))?;
        let path = data.join(FILE);
        if path.exists() {
            bail!(
                "{} says that this folder is a node of a cluster already; `trilith cluster open` lets others in",
                path.display()
            );
        }
        let kept = data.join(CONSENSUS_FOLDER);
        if kept.exists() {
            bail!(
                "{} is there, and no {FILE} beside it: what the folder holds can't be told. Put {FILE} back; if it is lost, move {} away, and \
                 `trilith fsck --rebuild` makes both anew from the devices",
                kept.display(),
                kept.display()
            );
        }
        self.put(data)
    }

    /// The node has formed its cluster, or joined it. From now on it comes back with what its part of the manager holds, or not at all: with
    /// an empty one the first node would form another cluster under the same name, and another one forget what it has voted for.
    pub fn note_member(&mut self, data: &Path) -> anyhow::Result<()> {
        if self.is_member() {
            return Ok(());
        }
        self.is_member = true;
        if self.via.is_empty() {
            self.via = vec![self.address.clone()];
        }
        self.put(data)
    }

    /// Whether the node has taken part in its cluster.
    pub fn is_member(&self) -> bool {
        // Of first nodes older versions noted only this.
        self.is_member || self.via == [self.address.clone()]
    }

    /// Gives a lone node an address, at which others are let in.
    pub fn open(&mut self, data: &Path, opened: Place) -> anyhow::Result<()> {
        let (cluster, secret, identity) = (self.cluster.clone(), self.secret.clone(), self.identity.clone());
        let via = if self.is_member { vec![opened.address.clone()] } else { Vec::new() };
        *self = Place { cluster, secret, identity, via, is_member: self.is_member, ..opened };
        self.put(data)
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
        let mark = if self.tls { TLS_MARK } else { PLAIN_MARK };
        format!("{mark}.{}.{}", self.cluster, self.secret).parse()
    }

    /// What this node's connections show to others.
    pub fn identity(&self) -> anyhow::Result<net::Identity> {
        Ok(self.token()?.identity(self.node_identity()?))
    }

    /// The network on which this node, whose data is in `data`, reaches others and they reach it.
    pub fn network(&self, env: &Env, data: &Path) -> anyhow::Result<Arc<dyn Network>> {
        if self.is_lone() {
            return Ok(Arc::new(UnixNetwork::new(data)));
        }
        if !self.tls {
            return Ok(Arc::new(TcpNetwork));
        }
        let token = self.token()?;
        let authority = Arc::new(Authority::of(token.cluster, &token.secret)?);
        let (own, of_volume) = (self.identity()?, move |volume| VolumeKey::of(&token, volume).authority());
        let network = TlsNetwork::new(env, Arc::new(TcpNetwork), &authority, own)?;
        Ok(Arc::new(network.with_guests(own, Arc::new(of_volume))))
    }

    /// Refuses plain connections beyond this machine unless they were asked for.
    pub fn check_exposure(&self) -> anyhow::Result<()> {
        let is_local = self.address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        if self.tls || is_local || self.is_lone() || self.trust_network {
            return Ok(());
        }
        bail!(
            "{} is reached from beyond this machine, and connections of this cluster are not encrypted: --trust-network allows it, \
             or `trust_network = true` in {FILE}",
            self.address
        )
    }

    /// What this node does.
    pub fn roles(&self) -> anyhow::Result<Roles> {
        if self.roles.is_empty() {
            bail!("a node has at least one of the roles {}", Roles::all());
        }
        Ok(self.roles.iter().map(|name| name.parse()).collect::<Result<Roles, _>>()?)
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
        Token { cluster: ClusterId([7; 16]), secret: [9; 16], tls: true }
    }

    #[test]
    fn tokens_come_back_and_others_are_refused_with_a_reason() {
        for tls in [false, true] {
            let token = Token { tls, ..token() };
            assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        }
        for wrong in [
            "",
            "abc",
            "trilith1.12.34",
            "trilith2.00.00",
            "trilith3.07070707070707070707070707070707.09090909090909090909090909090909",
        ] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
        let plain = Token { tls: false, ..token() };
        let other = Token { secret: [8; 16], ..plain.clone() };
        let node = NodeIdentity([3; 16]);
        assert_ne!(plain.identity(node), other.identity(node));
        assert_ne!(plain.identity(node).cluster, plain.cluster, "the id is no key");
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
            tls: true,
            trust_network: false,
            is_member: false,
            roles: vec!["target".to_owned()],
        };
        assert_eq!(Place::read(folder.path()).unwrap(), None);
        place.write(folder.path()).unwrap();
        assert_eq!(Place::read(folder.path()).unwrap(), Some(place.clone()));
        assert!(place.write(folder.path()).unwrap_err().to_string().contains("already"));
        assert_eq!(place.token().unwrap(), token());
        assert_eq!(place.roles().unwrap(), [Role::Target].into_iter().collect());
    }

    #[test]
    fn a_node_has_all_roles_unless_it_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let read = |roles: &str| {
            let text = format!(
                "cluster = \"{}\"\nsecret = \"{}\"\nidentity = \"{}\"\nname = \"a\"\naddress = \"127.0.0.1:9002\"\nhost = \"a\"\n\
                 rack = \"\"\nzone = \"\"\nvia = []\n{roles}",
                token().cluster,
                hex::encode(token().secret),
                NodeIdentity([3; 16])
            );
            std::fs::write(folder.path().join(FILE), text).unwrap();
            Place::read(folder.path()).map(|place| place.unwrap().roles().unwrap())
        };
        assert_eq!(read("").unwrap(), Roles::all());
        assert_eq!(read("roles = [\"gateway\", \"manager\"]\n").unwrap().to_string(), "manager, gateway");
        for wrong in ["roles = []\n", "roles = [\"minister\"]\n"] {
            let error = format!("{:#}", read(wrong).unwrap_err());
            assert!(error.contains("role") && error.contains(FILE), "{error}");
        }
    }

    #[test]
    fn plain_connections_beyond_this_machine_are_asked_for() {
        let is_taken = |address: &str, tls, trust_network| {
            let folder = tempfile::tempdir().unwrap();
            let text = format!(
                "cluster = \"{}\"\nsecret = \"{}\"\nidentity = \"{}\"\nname = \"a\"\naddress = \"{address}\"\nhost = \"a\"\nrack = \"\"\n\
                 zone = \"\"\nvia = []\ntls = {tls}\ntrust_network = {trust_network}\n",
                token().cluster,
                hex::encode(token().secret),
                NodeIdentity([3; 16])
            );
            std::fs::write(folder.path().join(FILE), text).unwrap();
            Place::read(folder.path()).unwrap().unwrap().check_exposure().is_ok()
        };
        assert!(is_taken("127.9.0.1:9002", false, false) && is_taken("[::1]:9002", false, false));
        for far in ["10.0.0.1:9002", "[fd00::1]:9002", "nonsense"] {
            assert!(!is_taken(far, false, false), "{far}");
            assert!(is_taken(far, true, false) && is_taken(far, false, true), "{far}");
        }
    }
}
