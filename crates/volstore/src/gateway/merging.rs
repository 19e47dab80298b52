//! Pages of all groups, merged into one.
//!
//! Each group gives as many items as the page may have. So the first items of all together are right: whatever a group has behind its page is behind them.

use std::collections::BTreeMap;

use ::engine::{EngineError, ListItem, ListPage, ListQuery, ListedUpload, ObjectEngine, UploadPage, UploadQuery};
use bytes::Bytes;
use futures_util::future::try_join_all;
use manager::PLACEMENT_GROUPS;
use types::UploadId;

use super::{Gateway, is_unavailable, odd, unpack};
use crate::asking::{Answer, Ask, listed_of};

impl Gateway {
    pub(super) async fn list_groups(&self, query: &ListQuery) -> Result<ListPage, EngineError> {
        let ask = || Ask::List {
            bucket: query.bucket,
            prefix: query.prefix.to_vec(),
            start_after: query.start_after.to_vec(),
            delimiter: query.delimiter.to_vec(),
            max_items: u32::try_from(query.max_items).unwrap_or(u32::MAX),
        };
        let page_of = async |group: u32| {
            if let Some(here) = self.here(group) {
                let page = here.list(query).await;
                if !is_unavailable(&page) {
                    return page;
                }
            }
            let Answer::Listed { items, truncated } = self.ask_group(group, ask()).await? else { return Err(odd()) };
            let items = items.into_iter().map(listed_of).collect::<Option<Vec<_>>>().ok_or_else(odd)?;
            Ok(ListPage { items, truncated })
        };
        let pages = try_join_all((0..PLACEMENT_GROUPS).map(page_of)).await?;
        Ok(merge(pages, query.max_items))
    }

    pub(super) async fn list_group_uploads(&self, query: &UploadQuery) -> Result<UploadPage, EngineError> {
        let ask = || Ask::Uploads {
            bucket: query.bucket,
            prefix: query.prefix.to_vec(),
            after: query.after.as_ref().map(|(key, upload)| (key.to_vec(), *upload)),
            delimiter: query.delimiter.to_vec(),
            max_items: u32::try_from(query.max_items).unwrap_or(u32::MAX),
        };
        let answers = try_join_all((0..PLACEMENT_GROUPS).map(|group| self.ask_group(group, ask()))).await?;
        let mut pages = Vec::new();
        for answer in answers {
            let Answer::Uploads { uploads, prefixes, truncated } = answer else { return Err(odd()) };
            let listed = |(key, upload, attributes): (Vec<u8>, UploadId, Box<[u8]>)| {
                let attributes = unpack(&attributes)?;
                let checksum = attributes.checksum_scheme();
                let (initiated_ms, storage_class) = (attributes.modified_ms, attributes.storage_class);
                Ok::<_, EngineError>(ListedUpload { key: key.into(), upload, initiated_ms, storage_class, checksum })
            };
            let uploads = uploads.into_iter().map(listed).collect::<Result<_, _>>()?;
            pages.push(UploadPage { uploads, prefixes: prefixes.into_iter().map(Bytes::from).collect(), truncated });
        }
        Ok(merge_uploads(pages, query.max_items))
    }
}

fn merge(pages: Vec<ListPage>, max_items: usize) -> ListPage {
    let is_more = pages.iter().any(|page| page.truncated);
    let name = |item: &ListItem| match item {
        ListItem::Object(object) => object.key.clone(),
        ListItem::Prefix(prefix) => prefix.clone(),
    };
    // A rolled-up prefix may come from several groups. No key is a prefix of the same bytes.
    let all: BTreeMap<Bytes, ListItem> =
        pages.into_iter().flat_map(|page| page.items).map(|item| (name(&item), item)).collect();
    let truncated = is_more || all.len() > max_items;
    ListPage { items: all.into_values().take(max_items).collect(), truncated }
}

fn merge_uploads(pages: Vec<UploadPage>, max_items: usize) -> UploadPage {
    let is_more = pages.iter().any(|page| page.truncated);
    let mut all: BTreeMap<(Bytes, UploadId), Option<ListedUpload>> = BTreeMap::new();
    for page in pages {
        all.extend(page.prefixes.into_iter().map(|prefix| ((prefix, UploadId::default()), None)));
        all.extend(page.uploads.into_iter().map(|upload| ((upload.key.clone(), upload.upload), Some(upload))));
    }
    let mut merged = UploadPage { truncated: is_more || all.len() > max_items, ..UploadPage::default() };
    for ((name, _), upload) in all.into_iter().take(max_items) {
        match upload {
            Some(upload) => merged.uploads.push(upload),
            None => merged.prefixes.push(name),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use ::engine::{ListItem, ListPage};
    use bytes::Bytes;

    use super::merge;

    fn page(prefixes: &[&'static str], truncated: bool) -> ListPage {
        let item = |prefix: &&'static str| ListItem::Prefix(Bytes::from_static(prefix.as_bytes()));
        ListPage { items: prefixes.iter().map(item).collect(), truncated }
    }

    #[test]
    fn pages_of_groups_are_one_page() {
        let merged = merge(vec![page(&["a", "c"], true), page(&["a", "b"], false), page(&[], false)], 2);
        assert_eq!((merged.items, merged.truncated), (page(&["a", "b"], true).items, true));
        let merged = merge(vec![page(&["c"], false), page(&["a", "c"], false)], 2);
        assert_eq!((merged.items, merged.truncated), (page(&["a", "c"], false).items, false));
    }
}
