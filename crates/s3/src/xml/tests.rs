use proptest::prelude::{any, proptest};

use super::{Xml, with_references};

fn escaped(text: &str) -> String {
    let mut xml = Xml::fragment();
    xml.text(text);
    String::from_utf8(xml.finish().to_vec()).expect("UTF-8")
}

#[test]
fn what_xml_reserves() {
    assert_eq!(escaped("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c'");
    assert_eq!(escaped("é😀"), "é😀");
    assert_eq!(escaped("\u{1}\r\u{7f}\u{1f}\t\n"), "&#x1;&#xd;&#x7f;&#x1f;\t\n");
}

#[test]
fn control_characters_of_others() {
    assert_eq!(with_references("<a>é &#13;\n\t</a>".as_bytes()), None);
    let written = with_references(b"<a>\r</a><b>\x01&lt;\x7f\n</b>").expect("changed");
    assert_eq!(written, "<a>&#xd;</a><b>&#x1;&lt;&#x7f;\n</b>");
}

#[test]
fn numbers() {
    for number in [0, 9, 10, 4_096, u64::MAX] {
        let mut xml = Xml::fragment();
        xml.number(number);
        assert_eq!(xml.finish(), number.to_string());
    }
}

proptest! {
    #[test]
    fn nothing_reserved_is_left(text in any::<String>()) {
        let escaped = escaped(&text);
        assert!(!escaped.contains(['<', '>', '"']), "{escaped}");
        assert!(escaped.chars().all(|character| character >= ' ' || character == '\t' || character == '\n'), "{escaped}");
        let back = escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        let plain = text.chars().all(|character| character >= ' ' && character != '\u{7f}');
        if plain {
            assert_eq!(back.replace("&amp;", "&"), text);
        }
    }
}
