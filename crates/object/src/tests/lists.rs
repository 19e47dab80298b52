use bytes::Bytes;
use engine::ListItem;

use super::{World, user};
use crate::{ListRequest, Listing, MAX_LIST_ITEMS};

fn shown(listing: &Listing) -> Vec<String> {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let names = listing.items.iter().map(|item| match item {
        ListItem::Object(object) => text(&object.key),
        ListItem::Prefix(prefix) => text(prefix) + "*",
    });
    names.collect()
}

async fn list(world: &World, request: &ListRequest) -> Listing {
    world.service.list(&user("alice"), "box", request).await.expect("a list")
}

#[tokio::test]
async fn pages_continue_where_they_ended() {
    let world = World::with_bucket().await;
    for key in ["a", "a/", "a/b", "b/1", "b/2", "c"] {
        world.put(key, "x").await;
    }
    let mut request = ListRequest { delimiter: "/".to_owned(), max_items: 2, ..ListRequest::default() };
    let first = list(&world, &request).await;
    assert_eq!(shown(&first), ["a", "a/*"]);
    assert_eq!(first.next.as_deref(), Some(&b"a/"[..]));
    request.start_after = "a/".to_owned();
    let second = list(&world, &request).await;
    assert_eq!((shown(&second), second.next), (vec!["b/*".to_owned(), "c".to_owned()], None));
    let prefixed = ListRequest { prefix: "b/".to_owned(), max_items: 10, ..ListRequest::default() };
    assert_eq!(shown(&list(&world, &prefixed).await), ["b/1", "b/2"]);
}

#[tokio::test]
async fn no_items_are_no_page_and_many_are_a_thousand() {
    let world = World::with_bucket().await;
    for number in 0..MAX_LIST_ITEMS + 5 {
        world.put(&format!("{number:05}"), "").await;
    }
    let none = list(&world, &ListRequest { max_items: 0, ..ListRequest::default() }).await;
    assert_eq!((none.items.len(), none.next), (0, None), "S3 answers IsTruncated false");
    let many = list(&world, &ListRequest { max_items: usize::MAX, ..ListRequest::default() }).await;
    assert_eq!(many.items.len(), MAX_LIST_ITEMS);
    assert_eq!(many.next.as_deref(), Some(&b"00999"[..]));
}
