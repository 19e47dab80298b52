//! Listings of directories: pages of the client, put into replies until one is full.

use filesystem::client::{Client, ClientError, Entry, ListedEntry};
use fuse::reply::{DirectoryEntry, Listing, PlusListing};
use fuse::request::ReadDirectory;

use crate::caches::Caches;
use crate::convert::{Validity, ino, type_bits};

/// What an entry of a listing takes beside its name, at least: how many names are asked for at once is computed with it.
const ENTRY_BYTES: u32 = 32;
const PLUS_ENTRY_BYTES: u32 = 160;

fn wire(entry: &ListedEntry) -> DirectoryEntry<'_> {
    DirectoryEntry { ino: entry.ino.0, cookie: entry.cookie, mode: type_bits(entry.kind), name: &entry.name }
}

fn names_at_once(request: &ReadDirectory, entry_bytes: u32) -> usize {
    (request.size / entry_bytes).max(1) as usize
}

pub async fn plain(client: &Client, request: &ReadDirectory) -> Result<Listing, ClientError> {
    let mut listing = Listing::new(request);
    let page = client.readdir(ino(request.node), request.cookie, names_at_once(request, ENTRY_BYTES)).await?;
    for entry in &page {
        if !listing.push(&wire(entry)) {
            break;
        }
    }
    Ok(listing)
}

pub async fn plus(
    client: &Client,
    request: &ReadDirectory,
    validity: Validity,
    caches: &Caches,
) -> Result<PlusListing, ClientError> {
    let mut listing = PlusListing::new(request);
    let page = client.readdir_plus(ino(request.node), request.cookie, names_at_once(request, PLUS_ENTRY_BYTES)).await?;
    for entry in &page {
        if let Some(attributes) = &entry.attributes {
            caches.renew(client, attributes).await;
        }
        let inode = entry.attributes.map(|attributes| validity.entry(&Entry(attributes)));
        if !listing.push(inode.as_ref(), &wire(entry)) {
            break;
        }
        // The kernel has a reference now, as after a lookup.
        if let Some(attributes) = &entry.attributes {
            client.remember(entry.ino);
            client.told(attributes);
        }
    }
    Ok(listing)
}
