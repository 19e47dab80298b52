//! How a node accepts guests: for each number another authority, made when it is first needed.

use super::authority::Authority;
use super::certificate::{CertificateError, OwnCertificate};
use super::failure::TlsFailure;
use super::network::server_config;
use crate::guests::guest_number;
use crate::hello::Identity;
use env::Env;
use parking_lot::Mutex;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use types::ClusterId;

/// Numbers whose certificates are kept. A stranger that names others costs a certificate each.
const MAX_KEPT: usize = 1024;

/// Makes the authority of the guests of a number.
pub type GuestAuthority = Arc<dyn Fn(u32) -> Result<Authority, CertificateError> + Send + Sync>;

/// One way to accept: whose certificates are right, and what is shown.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub config: Arc<ServerConfig>,
    pub cluster: ClusterId,
}

pub(crate) struct GuestAcceptors {
    env: Env,
    own: Identity,
    authority: GuestAuthority,
    kept: Mutex<BTreeMap<u32, Acceptor>>,
}

impl GuestAcceptors {
    pub fn new(env: &Env, own: Identity, authority: GuestAuthority) -> GuestAcceptors {
        GuestAcceptors { env: env.clone(), own, authority, kept: Mutex::default() }
    }

    /// For the guests that this name of a server is of.
    pub fn of_server_name(&self, name: &str) -> io::Result<Acceptor> {
        let number = Authority::named(name).and_then(|cluster| guest_number(&cluster.0));
        let number = number.ok_or(TlsFailure::OtherCluster)?;
        if let Some(kept) = self.kept.lock().get(&number) {
            return Ok(kept.clone());
        }
        let made = self.make(number).map_err(TlsFailure::from)?;
        let mut kept = self.kept.lock();
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        Ok(kept.entry(number).or_insert(made).clone())
    }

    fn make(&self, number: u32) -> Result<Acceptor, CertificateError> {
        let authority = Arc::new((self.authority)(number)?);
        let cluster = authority.cluster();
        let certificate = OwnCertificate::new(&self.env, authority.clone(), Identity { cluster, ..self.own });
        Ok(Acceptor { config: Arc::new(server_config(&self.env, &authority, Arc::new(certificate))?), cluster })
    }
}
