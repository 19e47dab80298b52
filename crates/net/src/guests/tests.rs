//! Guests on plain connections and on those with certificates: each gets what is its own, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;

use super::*;
use crate::{
    Authority, BoxFuture, CallError, Caller, Identity, MAX_GUESTS, Network, Refusal, RemoteCaller, Request, SimulatedNetwork,
    TlsNetwork, serve_with_guests,
};

const NAME: &str = "node-1";
const NODE: NodeIdentity = NodeIdentity([1; 16]);
const CLUSTER: ClusterId = ClusterId([7; 16]);
const SECRET: [u8; 16] = [9; 16];
/// The number that is served to guests; others are not there.
const NUMBER: u32 = 5;
const LIMIT: Duration = Duration::from_secs(20);

/// Answers with a word.
struct Word(&'static str);

impl Service for Word {
    fn handle(&self, _: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move { Ok(Bytes::from(self.0)) })
    }
}

/// Of guests that have the key which the number has here.
struct Door {
    tls: bool,
}

impl Guests for Door {
    fn admit(&self, number: u32) -> Option<Admitted> {
        let cluster = if self.tls { guest_cluster(number) } else { plain_key(number, 0) };
        (number == NUMBER).then(|| Admitted { cluster, service: Arc::new(Word("for guests")) })
    }
}

/// What only those with a key of the number know.
fn plain_key(number: u32, key: u8) -> ClusterId {
    ClusterId([100 + number as u8 + key; 16])
}

fn authority(number: u32, key: u8) -> Authority {
    Authority::of(guest_cluster(number), &[number as u8 + key; 16]).unwrap()
}

struct World {
    env: Env,
    plain: SimulatedNetwork,
    tls: bool,
}

impl World {
    async fn new(tls: bool) -> World {
        let env = Env::simulated(1);
        let world = World { plain: SimulatedNetwork::new(&env), env, tls };
        let own = Identity { cluster: CLUSTER, node: NODE };
        let network: Arc<dyn Network> = match tls {
            false => Arc::new(world.plain.clone()),
            true => {
                let authority = |number| Ok(authority(number, 0));
                Arc::new(world.with_tls(Authority::of(CLUSTER, &SECRET).unwrap(), own).with_guests(own, Arc::new(authority)))
            }
        };
        let listener = network.listen(NAME).await.unwrap();
        let serving =
            serve_with_guests(world.env.clone(), listener, Arc::new(Word("for nodes")), own, Some(Arc::new(Door { tls })));
        world.env.spawn(serving);
        world
    }

    fn with_tls(&self, authority: Authority, own: Identity) -> TlsNetwork {
        TlsNetwork::new(&self.env, Arc::new(self.plain.clone()), &Arc::new(authority), own).unwrap()
    }

    /// A call of a guest of `number`, with its right key if `key` is 0.
    async fn guest_calls(&self, number: u32, key: u8) -> Result<Bytes, CallError> {
        let (cluster, node) = (guest_cluster(number), guest_node(number));
        match self.tls {
            true => {
                let own = Identity { cluster, node };
                self.call(Arc::new(self.with_tls(authority(number, key), own)), own).await
            }
            false => self.call(Arc::new(self.plain.clone()), Identity { cluster: plain_key(number, key), node }).await,
        }
    }

    async fn node_calls(&self) -> Result<Bytes, CallError> {
        let own = Identity { cluster: CLUSTER, node: NodeIdentity([2; 16]) };
        match self.tls {
            true => self.call(Arc::new(self.with_tls(Authority::of(CLUSTER, &SECRET).unwrap(), own)), own).await,
            false => self.call(Arc::new(self.plain.clone()), own).await,
        }
    }

    async fn call(&self, network: Arc<dyn Network>, own: Identity) -> Result<Bytes, CallError> {
        let caller = RemoteCaller::new(&self.env, network, NAME, own);
        caller.call(Bytes::from("hello"), self.env.now() + LIMIT).await
    }
}

#[tokio::test(start_paused = true)]
async fn guests_with_the_key_get_what_is_theirs_and_nodes_the_rest() {
    for tls in [false, true] {
        let world = World::new(tls).await;
        assert_eq!(world.guest_calls(NUMBER, 0).await.unwrap(), "for guests", "tls {tls}");
        assert_eq!(world.node_calls().await.unwrap(), "for nodes", "tls {tls}");
    }
}

#[tokio::test(start_paused = true)]
async fn guests_with_another_key_and_of_what_is_not_there_are_refused() {
    for tls in [false, true] {
        let world = World::new(tls).await;
        assert!(world.guest_calls(NUMBER, 1).await.is_err(), "tls {tls}: another key");
        assert!(world.guest_calls(NUMBER + 1, 0).await.is_err(), "tls {tls}: another number");
        assert_eq!(world.node_calls().await.unwrap(), "for nodes", "tls {tls}");
    }
}

#[tokio::test(start_paused = true)]
async fn guests_leave_room_for_nodes() {
    let world = World::new(false).await;
    let own = Identity { cluster: plain_key(NUMBER, 0), node: guest_node(NUMBER) };
    let mut guests = Vec::new();
    for at in 0..=MAX_GUESTS {
        let guest = RemoteCaller::new(&world.env, Arc::new(world.plain.clone()), NAME, own);
        let answer = guest.call(Bytes::new(), world.env.now() + LIMIT).await;
        assert_eq!(answer.is_ok(), at < MAX_GUESTS, "guest {at}");
        guests.push(guest);
    }
    assert_eq!(world.node_calls().await.unwrap(), "for nodes");
    guests.remove(0);
    tokio::time::sleep(LIMIT).await;
    assert_eq!(world.guest_calls(NUMBER, 0).await.unwrap(), "for guests", "there is a place again");
}

#[test]
fn a_number_is_in_the_ids_of_its_guests_and_in_no_other() {
    for number in [0, 1, 0x0102_0304, u32::MAX] {
        assert_eq!(guest_number(&guest_cluster(number).0), Some(number));
        assert_eq!(guest_number(&guest_node(number).0), Some(number));
    }
    assert_eq!(guest_number(&[7; 16]), None);
}
