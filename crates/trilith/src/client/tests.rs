use super::xml::unescape;
use super::{Call, S3Error, element, elements};
use ::http::Method;

#[test]
fn queries_are_encoded_and_sorted_by_their_encoded_names() {
    let call = Call::new(Method::GET, "b", "a key/ä").query("prefix", "a b/").query("list-type", "2").query("delete", "");
    assert_eq!(call.path(), "/b/a%20key/%C3%A4");
    assert_eq!(call.encoded_query(), "delete=&list-type=2&prefix=a%20b%2F");
    assert_eq!(Call::new(Method::GET, "", "").path(), "/");
}

#[test]
fn elements_are_found_in_order() {
    let xml = "<R><C><Key>a&amp;lt;</Key></C><X/><C><Key>b</Key></C><T>false</T></R>";
    let keys: Vec<String> = elements(xml, "C").filter_map(|item| element(item, "Key")).collect();
    assert_eq!(keys, ["a&lt;", "b"]);
    assert_eq!(element(xml, "T").as_deref(), Some("false"));
    assert_eq!(element(xml, "Missing"), None);
    assert_eq!(unescape("&#x41;&#66;&quot;&nonsense;&"), "AB\"&nonsense;&");
}

#[test]
fn errors_say_what_the_server_said_and_what_to_do() {
    let call = Call::new(Method::GET, "photos", "cat.jpg");
    let xml = "<Error><Code>SignatureDoesNotMatch</Code><Message>No &lt;match&gt;</Message></Error>";
    let text = S3Error::of(403, xml, &call).to_string();
    assert!(text.starts_with("photos/cat.jpg: No <match> (SignatureDoesNotMatch)"), "{text}");
    assert!(text.contains("--secret-key"), "{text}");
    // A HEAD answer has no body.
    assert!(S3Error::of(404, "", &call).to_string().contains("photos/cat.jpg: not found"));
    assert!(S3Error::of(502, "<html>", &call).to_string().contains("HTTP status 502"));
}
