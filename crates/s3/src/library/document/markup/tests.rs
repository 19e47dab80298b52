use http::{Method, Request};

use super::Markup;
use crate::config::MAX_DOCUMENT_TAGS;
use crate::query::Query;

fn is_taken(pieces: &[&str]) -> bool {
    let mut markup = Markup::default();
    pieces.iter().all(|piece| markup.take(piece.as_bytes()).is_ok())
}

#[test]
fn cdata_wherever_it_is_cut() {
    let document = "<Key>a<![CDATA[b]]></Key>";
    for at in 0..=document.len() {
        let (before, after) = document.split_at(at);
        assert!(!is_taken(&[before, after]), "cut at {at}");
    }
    let bytes: Vec<String> = document.chars().map(String::from).collect();
    assert!(!is_taken(&bytes.iter().map(String::as_str).collect::<Vec<_>>()), "byte by byte");
    assert!(!is_taken(&["<<![CDATA["]) && !is_taken(&["<![<![CDATA["]), "after half a beginning");
}

#[test]
fn what_is_no_cdata() {
    for document in ["<Delete/>", "![CDATA[", "<![cdata[", "<![CDATA ", "<Key>&lt;![CDATA[x]]&gt;</Key>", "<! [CDATA[", ""] {
        assert!(is_taken(&[document]), "{document}");
    }
}

#[test]
fn tags_are_counted() {
    let most = "<a/>".repeat(MAX_DOCUMENT_TAGS);
    assert!(is_taken(&[&most]));
    assert!(!is_taken(&[&most, "<a/>"]));
}

#[test]
fn elements_that_are_not_read() {
    let look = |method: Method, query: &str, document: &str| {
        let mut head = Request::new(()).into_parts().0;
        head.method = method;
        let query = Query::parse(Some(query)).expect("well-formed");
        // Byte by byte, and at once.
        let mut markup = Markup::of(&head, &query);
        let in_bytes = document.as_bytes().chunks(1).try_for_each(|byte| markup.take(byte));
        let at_once = Markup::of(&head, &query).take(document.as_bytes());
        let code = |taken: Result<(), crate::failure::Failure>| taken.map_err(|failure| failure.code.name);
        let found = code(at_once);
        assert_eq!(code(in_bytes), found, "{document}");
        found
    };
    let delete = |document: &str| look(Method::POST, "delete", document);
    assert_eq!(
        delete("<?xml version=\"1.0\"?><Delete xmlns=\"a\"><!-- b --><Object><Key>c</Key></Object><Quiet/></Delete>"),
        Ok(())
    );
    assert_eq!(delete("<s3:Delete><s3:Object\n><s3:Key>a</s3:Key></s3:Object></s3:Delete>"), Ok(()));
    for document in ["<Delete><Keys>a</Keys></Delete>", "<Delete><keyx/></Delete>", "<Delete><>a</></Delete>"] {
        assert_eq!(delete(document), Err("MalformedXML"), "{document}");
    }
    let create = |document: &str| look(Method::PUT, "", document);
    assert_eq!(create("<CreateBucketConfiguration><LocationConstraint/></CreateBucketConfiguration>"), Ok(()));
    assert_eq!(create("<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>"), Err("NotImplemented"));
    assert_eq!(look(Method::PUT, "cors", "<Anything/>"), Ok(()), "refused elsewhere");
}
