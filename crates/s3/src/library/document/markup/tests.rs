use super::Markup;
use crate::config::MAX_DOCUMENT_TAGS;

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
