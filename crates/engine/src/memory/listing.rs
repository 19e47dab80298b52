//! Pages of names, straight from the definition in [`crate::list`]: look at every name of the bucket in order.

use bytes::Bytes;
use types::UploadId;

use super::{State, StoredObject};
use crate::list::{ListItem, ListPage, ListQuery, ListedObject};
use crate::upload::{ListedUpload, UploadPage, UploadQuery};

pub(super) fn list_objects(state: &State, query: &ListQuery) -> ListPage {
    let mut page = ListPage::default();
    for (key, object) in &state.objects {
        if key.bucket() != query.bucket || !key.key().starts_with(&query.prefix) {
            continue;
        }
        let item = match rolled_up(key.key(), &query.prefix, &query.delimiter) {
            Some(prefix) => ListItem::Prefix(prefix),
            None => ListItem::Object(listed(key.key(), object)),
        };
        let name = match &item {
            ListItem::Prefix(prefix) => prefix,
            ListItem::Object(object) => &object.key,
        };
        if *name <= query.start_after || page.items.last() == Some(&item) {
            continue;
        }
        if page.items.len() == query.max_items {
            page.truncated = true;
            break;
        }
        page.items.push(item);
    }
    page
}

pub(super) fn list_uploads(state: &State, query: &UploadQuery) -> UploadPage {
    let mut page = UploadPage::default();
    for ((key, upload), stored) in &state.uploads {
        if key.bucket() != query.bucket || !key.key().starts_with(&query.prefix) {
            continue;
        }
        let prefix = rolled_up(key.key(), &query.prefix, &query.delimiter);
        let is_after = match &prefix {
            Some(prefix) => query.after.as_ref().is_none_or(|(after, _)| prefix > after),
            None => is_upload_after(key.key(), *upload, query.after.as_ref()),
        };
        if !is_after || prefix.as_ref().is_some_and(|prefix| page.prefixes.last() == Some(prefix)) {
            continue;
        }
        if page.uploads.len() + page.prefixes.len() == query.max_items {
            page.truncated = true;
            break;
        }
        match prefix {
            Some(prefix) => page.prefixes.push(prefix),
            None => page.uploads.push(ListedUpload {
                key: key.key().clone(),
                upload: *upload,
                initiated_ms: stored.attributes.modified_ms,
                storage_class: stored.attributes.storage_class,
                checksum: stored.attributes.checksum_scheme(),
            }),
        }
    }
    page
}

fn is_upload_after(key: &Bytes, upload: UploadId, after: Option<&(Bytes, Option<UploadId>)>) -> bool {
    match after {
        None => true,
        Some((after_key, None)) => key > after_key,
        Some((after_key, Some(after_upload))) => (key, upload) > (after_key, *after_upload),
    }
}

fn listed(key: &Bytes, object: &StoredObject) -> ListedObject {
    ListedObject {
        key: key.clone(),
        length: object.info.length,
        etag: object.info.attributes.etag,
        modified_ms: object.info.attributes.modified_ms,
        storage_class: object.info.attributes.storage_class,
        checksum: object.info.attributes.checksum_scheme(),
    }
}

/// The prefix that a key shows as: up to and with the first delimiter after the query's prefix; none without one.
fn rolled_up(key: &Bytes, prefix: &Bytes, delimiter: &Bytes) -> Option<Bytes> {
    if delimiter.is_empty() {
        return None;
    }
    let rest = &key[prefix.len()..];
    let at = rest.windows(delimiter.len()).position(|window| window == &delimiter[..])?;
    Some(key.slice(..prefix.len() + at + delimiter.len()))
}
