use super::{http_date, iso8601, seconds_of_http_date};

fn iso(ms: u64) -> String {
    String::from_utf8(iso8601(ms).to_vec()).expect("ASCII")
}

fn http(ms: u64) -> String {
    String::from_utf8(http_date(ms).to_vec()).expect("ASCII")
}

#[test]
fn known_dates() {
    assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(iso(1_255_369_830_000), "2009-10-12T17:50:30.000Z");
    assert_eq!(iso(1_709_251_199_999), "2024-02-29T23:59:59.999Z");
    assert_eq!(http(1_255_369_830_000), "Mon, 12 Oct 2009 17:50:30 GMT");
    assert_eq!(http(0), "Thu, 01 Jan 1970 00:00:00 GMT");
}

#[test]
fn agrees_with_another_implementation_over_four_centuries() {
    for day in (0..146_097u64).step_by(13) {
        let seconds = day * 86_400 + day % 86_400;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        assert_eq!(http(seconds * 1000 + 999), httpdate::fmt_http_date(time));
        assert_eq!(seconds_of_http_date(&http(seconds * 1000)), Some(seconds));
    }
}

#[test]
fn what_is_no_date() {
    for text in ["", "yesterday", "2009-10-12T17:50:30.000Z", "Mon, 12 Oct 2009 17:50:30"] {
        assert_eq!(seconds_of_http_date(text), None, "{text}");
    }
}
