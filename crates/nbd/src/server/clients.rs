//! Which exports have clients: an export hears of its first one and of the end of its last one.
//!
//! An entry's lock is held while the export is told, so that a client which comes meanwhile waits until that is done. All clients of a name use
//! the same export object, the one that the first of them found.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::export::{Export, OpenError};

/// The exports that have clients.
#[derive(Default)]
pub struct Clients {
    entries: Mutex<HashMap<String, Arc<Entry>>>,
}

#[derive(Default)]
struct Entry {
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    export: Option<Arc<dyn Export>>,
    client_count: usize,
    /// The entry was taken out of the table.
    is_removed: bool,
}

/// A client of an export. It has to leave: dropping it is not enough.
#[must_use]
pub struct Client {
    pub export: Arc<dyn Export>,
    entry: Arc<Entry>,
}

impl Clients {
    /// Enters a client that has found this export.
    pub async fn enter(&self, found: Arc<dyn Export>) -> Result<Client, OpenError> {
        loop {
            let entry = self.entries.lock().entry(found.name().to_owned()).or_default().clone();
            let mut state = entry.state.lock().await;
            if state.is_removed {
                continue;
            }
            let export = match &state.export {
                Some(export) => export.clone(),
                None => match found.first_client_enters().await {
                    Ok(()) => state.export.insert(found).clone(),
                    Err(error) => {
                        self.remove(found.name(), &mut state);
                        return Err(error);
                    }
                },
            };
            state.client_count += 1;
            drop(state);
            return Ok(Client { export, entry });
        }
    }

    /// The client leaves; no operation of it is under way.
    pub async fn leave(&self, client: Client) {
        let mut state = client.entry.state.lock().await;
        state.client_count -= 1;
        if state.client_count == 0 {
            client.export.last_client_left().await;
            self.remove(client.export.name(), &mut state);
        }
    }

    fn remove(&self, name: &str, state: &mut State) {
        self.entries.lock().remove(name);
        state.is_removed = true;
    }
}
