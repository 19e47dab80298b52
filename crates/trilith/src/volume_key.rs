//! The key of a file volume: lets a machine that is no node mount it, and do nothing else (docs/rfd/0029).
//!
//! It is made of the cluster's secret and the volume's number. So nodes keep no keys, and a key shows neither the secret nor another volume's key.

use crate::place::Token;
use anyhow::{Context, bail};
use env::Env;
use net::{Authority, CertificateError, Identity, Network, TcpNetwork, TlsNetwork, guest_cluster, guest_node};
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

/// Marks a key of a cluster whose connections are plain, and of one with TLS.
const PLAIN_MARK: &str = "trilith-volume1";
const TLS_MARK: &str = "trilith-volume2";
/// What the cluster's secret is for: keys made of it for another purpose are others.
const CONTEXT: &str = "Trilith 2026-11 key of a file volume";

/// Lets its holders mount one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeKey {
    pub volume: u32,
    secret: [u8; 16],
    tls: bool,
}

impl VolumeKey {
    /// Of a volume of a cluster.
    pub fn of(cluster: &Token, volume: u32) -> VolumeKey {
        let key = [&cluster.cluster.0[..], &cluster.secret, &volume.to_be_bytes()].concat();
        let derived = blake3::derive_key(CONTEXT, &key);
        VolumeKey { volume, secret: *derived.first_chunk().expect("it has 32 bytes"), tls: cluster.tls }
    }

    /// As a guest's connections take it.
    fn token(&self) -> Token {
        Token { cluster: guest_cluster(self.volume), secret: self.secret, tls: self.tls }
    }

    /// What a guest shows.
    pub fn identity(&self) -> Identity {
        self.token().identity(guest_node(self.volume))
    }

    /// What certificates of guests, and those that nodes show to them, are checked against.
    pub fn authority(&self) -> Result<Authority, CertificateError> {
        Authority::of(guest_cluster(self.volume), &self.secret)
    }

    /// The network on which a guest reaches nodes.
    pub fn network(&self, env: &Env) -> anyhow::Result<Arc<dyn Network>> {
        if !self.tls {
            return Ok(Arc::new(TcpNetwork));
        }
        Ok(Arc::new(TlsNetwork::new(env, Arc::new(TcpNetwork), &Arc::new(self.authority()?), self.identity())?))
    }
}

impl Display for VolumeKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mark = if self.tls { TLS_MARK } else { PLAIN_MARK };
        write!(f, "{mark}.{}.{}", self.volume, hex::encode(self.secret))
    }
}

impl FromStr for VolumeKey {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<VolumeKey> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let [mark @ (PLAIN_MARK | TLS_MARK), volume, secret] = parts[..] else {
            bail!(
                "the key of a volume looks like {TLS_MARK}.NUMBER.SECRET; `trilith volume key NAME` prints it on a node of the cluster"
            )
        };
        let mut bytes = [0; 16];
        hex::decode_to_slice(secret, &mut bytes).context("the last part of a volume's key has 32 hexadecimal digits")?;
        Ok(VolumeKey {
            volume: volume.parse().context("the second part of a volume's key")?,
            secret: bytes,
            tls: mark == TLS_MARK,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::ClusterId;

    fn token(tls: bool) -> Token {
        Token { cluster: ClusterId([7; 16]), secret: [9; 16], tls }
    }

    #[test]
    fn keys_come_back_and_others_are_refused_with_a_reason() {
        for tls in [false, true] {
            let key = VolumeKey::of(&token(tls), 12);
            assert_eq!(key.to_string().parse::<VolumeKey>().unwrap(), key);
        }
        for wrong in ["", "trilith-volume2.12", "trilith-volume2.x.09090909090909090909090909090909", "trilith-volume2.1.09"] {
            assert!(wrong.parse::<VolumeKey>().is_err(), "{wrong}");
        }
        let of_cluster = token(true).to_string().parse::<VolumeKey>().unwrap_err().to_string();
        assert!(of_cluster.contains("volume key"), "{of_cluster}");
    }

    #[test]
    fn each_volume_of_each_cluster_has_its_own_key() {
        let key = VolumeKey::of(&token(false), 1);
        let others = [
            VolumeKey::of(&token(false), 2),
            VolumeKey::of(&Token { secret: [8; 16], ..token(false) }, 1),
            VolumeKey::of(&Token { cluster: ClusterId([6; 16]), ..token(false) }, 1),
        ];
        assert!(others.iter().all(|other| other.identity().cluster != key.identity().cluster));
        assert!(!key.to_string().contains(&hex::encode([9; 16])), "a key shows no secret of the cluster");
    }
}
