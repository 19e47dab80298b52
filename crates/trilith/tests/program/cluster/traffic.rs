//! Clients at all nodes of a cluster, and their history.

use super::fixture::Cluster;
use crate::linear::client::Client;
use crate::linear::load::Load;
use crate::linear::record::Record;
use crate::linear::{BUCKET, CLIENTS, KEYS, seed};
use std::sync::atomic::Ordering;

/// Answers before and after each disturbance.
pub const SOME_ANSWERS: u64 = 60;

/// Clients and what they have heard.
pub struct Traffic {
    clients: Vec<Client>,
    pub record: Record,
}

impl Traffic {
    /// Clients that have asked nothing yet; the bucket is there.
    pub fn new() -> Traffic {
        println!("seed {}", seed());
        Traffic { clients: (0..CLIENTS).map(|number| Client::new(seed(), number)).collect(), record: Record::new(KEYS) }
    }

    /// Of a cluster of this test.
    pub fn at(cluster: &Cluster) -> Traffic {
        cluster.make_open_bucket(BUCKET);
        Traffic::new()
    }

    /// Lets the clients ask while something is done.
    pub fn during<T>(&mut self, nodes: &[String], disturb: impl FnOnce(&Load) -> T) -> T {
        let (load, record) = (Load::default(), &self.record);
        let outcome = std::thread::scope(|scope| {
            for client in &mut self.clients {
                scope.spawn(|| client.run_in_cluster(nodes, record, &load));
            }
            let ending = Ending(&load);
            let outcome = disturb(&load);
            drop(ending);
            outcome
        });
        assert_eq!(load.clients_lost.load(Ordering::Relaxed), 0, "a client failed");
        outcome
    }

    /// The cluster is whole again and nobody asks: what was not answered is decided. Everything is read at every node.
    pub fn look(&mut self, nodes: &[String]) {
        self.record.server_ended();
        for node in nodes {
            self.clients[0].read_everything(node, &self.record);
        }
    }

    /// Empties all keys and begins another history with that. The cluster is whole and nobody asks.
    pub fn begin_anew(&mut self, nodes: &[String]) {
        self.record = Record::new(KEYS);
        self.clients[0].delete_everything(&nodes[0], &self.record);
        self.clients.iter_mut().for_each(Client::forget);
    }

    /// All that was heard has an explanation.
    pub fn judge(&self) {
        println!("{}", self.record.counts());
        self.record.judge().unwrap_or_else(|violation| panic!("seed {}: {violation}", seed()));
    }
}

/// Tells the clients to end, also when the disturbance fails.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_ending.store(true, Ordering::SeqCst);
    }
}
