//! Signing keys, kept for their day.

use std::sync::Arc;

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Most keys kept. One access key makes one entry a day; when more come, all are forgotten and made anew as they are used.
const MAX_SIGNING_KEYS: usize = 1024;

/// A key that signs for one access key, day and region.
#[derive(Clone)]
pub struct SigningKey {
    state: Hmac<Sha256>,
}

/// Signing keys that were used lately. Reading takes no lock: the list is short, and replaced as a whole.
pub struct SigningKeys {
    entries: ArcSwap<Vec<Entry>>,
}

#[derive(Clone)]
struct Entry {
    access_key: String,
    secret: String,
    day: String,
    region: String,
    key: SigningKey,
}

impl SigningKey {
    /// Derives the key: four HMACs, one within the other.
    pub fn derive(secret: &str, day: &str, region: &str) -> SigningKey {
        let mut seed = Vec::with_capacity(4 + secret.len());
        seed.extend_from_slice(b"AWS4");
        seed.extend_from_slice(secret.as_bytes());
        let of_day = mac(&seed, day.as_bytes());
        let of_region = mac(&of_day, region.as_bytes());
        let of_service = mac(&of_region, b"s3");
        let key = mac(&of_service, b"aws4_request");
        SigningKey { state: keyed(&key) }
    }

    /// Signs.
    pub fn sign(&self, pieces: &[&[u8]]) -> [u8; 32] {
        let mut state = self.state.clone();
        for piece in pieces {
            state.update(piece);
        }
        state.finalize().into_bytes().into()
    }
}

impl SigningKeys {
    pub fn new() -> SigningKeys {
        SigningKeys { entries: ArcSwap::from_pointee(Vec::new()) }
    }

    /// The key for these; derived if it is not known. The secret is compared, so a changed secret has another key at once.
    pub fn get(&self, access_key: &str, secret: &str, day: &str, region: &str) -> SigningKey {
        let entries = self.entries.load();
        if let Some(entry) = entries.iter().find(|entry| {
            entry.access_key == access_key && entry.day == day && entry.region == region && entry.secret == secret
        }) {
            return entry.key.clone();
        }
        let key = SigningKey::derive(secret, day, region);
        self.keep(Entry {
            access_key: access_key.to_owned(),
            secret: secret.to_owned(),
            day: day.to_owned(),
            region: region.to_owned(),
            key: key.clone(),
        });
        key
    }

    fn keep(&self, entry: Entry) {
        // Two threads that add at once may lose one entry, which is then derived once more.
        let mut entries = Vec::clone(&self.entries.load());
        // Keys of another day or an old secret are of no more use to this access key.
        entries.retain(|other| other.access_key != entry.access_key || other.day >= entry.day && other.secret == entry.secret);
        if entries.len() >= MAX_SIGNING_KEYS {
            entries.clear();
        }
        entries.push(entry);
        self.entries.store(Arc::new(entries));
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("an HMAC takes a key of any length")
}

fn mac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut state = keyed(key);
    state.update(text);
    state.finalize().into_bytes().into()
}
