use http::HeaderValue;

use super::of_header;

fn code_of(text: &str) -> Result<usize, &'static str> {
    let value = HeaderValue::from_bytes(text.as_bytes()).expect("a header's value");
    of_header(&value).map(|tags| tags.len()).map_err(|failure| failure.code.name)
}

#[test]
fn what_tags_may_say() {
    let many = |count: usize| (0..count).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join("&");
    for (text, expected) in [
        (String::new(), Ok(0)),
        (String::from("a=b&c="), Ok(2)),
        (String::from("a"), Ok(1)),
        (String::from("a%20b+c=%2B-%3D._:/@"), Ok(1)),
        (String::from("%C3%A9t%C3%A9=%E6%97%A5"), Ok(1)),
        (many(10), Ok(10)),
        (many(11), Err("BadRequest")),
        (String::from("a=1&%61=2"), Err("InvalidArgument")),
        (String::from("a%=1"), Err("InvalidArgument")),
        (String::from("=b"), Err("InvalidArgument")),
        (String::from("aws:x=1"), Err("InvalidTag")),
        (String::from("AWS:x=1"), Ok(1)),
        (String::from("a%3C=1"), Err("InvalidTag")),
        (String::from("a=%3Cb%3E"), Err("InvalidTag")),
        (String::from("a=%0A"), Err("InvalidTag")),
        (String::from("a=%FF"), Err("InvalidArgument")),
        ("k".repeat(128), Ok(1)),
        ("k".repeat(129), Err("InvalidTag")),
        ("%C3%A9".repeat(128), Ok(1)),
        (format!("a={}", "v".repeat(256)), Ok(1)),
        (format!("a={}", "v".repeat(257)), Err("InvalidTag")),
    ] {
        assert_eq!(code_of(&text), expected, "{text}");
    }
}
