//! Pages of names. A prefix that is rolled up is skipped in one step.

use std::ops::Bound;

use bytes::Bytes;
use engine::{ListItem, ListPage, ListQuery, ListedObject, ListedUpload, UploadPage, UploadQuery};
use types::UploadId;

use crate::content::Object;
use crate::name::Name;

use super::{Pg, Upload, UploadName, attributes_of};

impl Pg {
    /// A page of objects.
    pub fn list(&self, query: &ListQuery) -> ListPage {
        let mut page = ListPage::default();
        let from = if query.start_after < query.prefix {
            Bound::Included(Name::starting(query.bucket, &query.prefix))
        } else {
            Bound::Excluded(Name::starting(query.bucket, &query.start_after))
        };
        let mut rows = self.objects.range(from.as_ref());
        while let Some((name, row)) = rows.next() {
            if name.bucket() != query.bucket || !name.key().starts_with(&query.prefix) {
                break;
            }
            let rolled_up = rolled_up(name.key(), &query.prefix, &query.delimiter);
            if rolled_up.is_some_and(|prefix| prefix <= &query.start_after[..]) {
                let Some(next) = behind(rolled_up.expect("it was looked at")) else { break };
                rows = self.objects.range(Bound::Included(&Name::starting(query.bucket, &next)));
                continue;
            }
            if page.items.len() == query.max_items {
                page.truncated = true;
                break;
            }
            match rolled_up {
                Some(prefix) => {
                    page.items.push(ListItem::Prefix(Bytes::copy_from_slice(prefix)));
                    let Some(next) = behind(prefix) else { break };
                    rows = self.objects.range(Bound::Included(&Name::starting(query.bucket, &next)));
                }
                None => page.items.push(ListItem::Object(listed(&name, &row.object()))),
            }
        }
        page
    }

    /// A page of uploads.
    pub fn list_uploads(&self, query: &UploadQuery) -> UploadPage {
        let mut page = UploadPage::default();
        let first = match &query.after {
            Some((after, _)) if *after >= query.prefix => Name::starting(query.bucket, after),
            _ => Name::starting(query.bucket, &query.prefix),
        };
        for (upload_name, upload) in self.uploads.range((first, UploadId::default())..) {
            let (name, id) = upload_name;
            if name.bucket() != query.bucket || !name.key().starts_with(&query.prefix) {
                break;
            }
            let rolled_up = rolled_up(name.key(), &query.prefix, &query.delimiter);
            let is_after = match rolled_up {
                Some(prefix) => query.after.as_ref().is_none_or(|(after, _)| prefix > &after[..]),
                None => is_upload_after(name.key(), *id, query.after.as_ref()),
            };
            if !is_after || rolled_up.is_some_and(|prefix| page.prefixes.last().is_some_and(|last| last == prefix)) {
                continue;
            }
            if page.uploads.len() + page.prefixes.len() == query.max_items {
                page.truncated = true;
                break;
            }
            match rolled_up {
                Some(prefix) => page.prefixes.push(Bytes::copy_from_slice(prefix)),
                None => page.uploads.push(listed_upload(upload_name, upload)),
            }
        }
        page
    }
}

/// The prefix that a key shows as: up to and with the first delimiter behind the query's prefix; none without one.
fn rolled_up<'a>(key: &'a [u8], prefix: &[u8], delimiter: &[u8]) -> Option<&'a [u8]> {
    if delimiter.is_empty() {
        return None;
    }
    let at = key[prefix.len()..].windows(delimiter.len()).position(|window| window == delimiter)?;
    Some(&key[..prefix.len() + at + delimiter.len()])
}

/// The least bytes that are greater than all that start so.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

fn listed(name: &Name, object: &Object) -> ListedObject {
    let attributes = attributes_of(&object.attributes);
    ListedObject {
        key: Bytes::copy_from_slice(name.key()),
        length: object.content.length(),
        etag: attributes.etag,
        modified_ms: attributes.modified_ms,
        storage_class: attributes.storage_class,
        checksum: attributes.checksum_scheme(),
    }
}

fn is_upload_after(key: &[u8], upload: UploadId, after: Option<&(Bytes, Option<UploadId>)>) -> bool {
    match after {
        None => true,
        Some((after_key, None)) => key > &after_key[..],
        Some((after_key, Some(after_upload))) => (key, upload) > (&after_key[..], *after_upload),
    }
}

fn listed_upload((name, id): &UploadName, upload: &Upload) -> ListedUpload {
    let attributes = attributes_of(&upload.attributes);
    ListedUpload {
        key: Bytes::copy_from_slice(name.key()),
        upload: *id,
        initiated_ms: attributes.modified_ms,
        storage_class: attributes.storage_class,
        checksum: attributes.checksum_scheme(),
    }
}
