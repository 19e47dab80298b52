use super::*;

const TEXT: &str = "00017f80fe0123456789abcdefff00a5";
const BYTES: [u8; 16] = [0x00, 0x01, 0x7f, 0x80, 0xfe, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xff, 0x00, 0xa5];

#[test]
fn opaque_ids_are_shown_as_they_are_read() {
    assert_eq!(UploadId(BYTES).to_string(), TEXT);
    assert_eq!(TEXT.parse(), Ok(UploadId(BYTES)));
    assert_eq!(TEXT.to_ascii_uppercase().parse(), Ok(ClusterId(BYTES)), "upper case is read too");
    assert_eq!(format!("{:?}", DeviceUuid(BYTES)), format!("DeviceUuid({TEXT})"));
    // Every byte in every place.
    for place in 0..16 {
        for byte in 0..=u8::MAX {
            let mut bytes = BYTES;
            bytes[place] = byte;
            assert_eq!(UploadId(bytes).to_string().parse(), Ok(UploadId(bytes)), "{byte} at {place}");
        }
    }
}

#[test]
fn what_is_no_id_is_refused() {
    let short = &TEXT[1..];
    let long = format!("{TEXT}0");
    let sign = TEXT.replace("01", "+1");
    let minus = TEXT.replace("00", "-0");
    let space = TEXT.replace("00", " 0");
    let letter = TEXT.replace('f', "g");
    // 32 bytes, but one letter fewer: cutting it into pairs of bytes would cut the letter.
    let letter_of_two_bytes = TEXT.replace("7f", "é");
    let dashes = "00017f80-fe01-2345-6789-abcdefff00a5";
    for text in ["", short, &long, &sign, &minus, &space, &letter, &letter_of_two_bytes, dashes] {
        assert_eq!(text.parse::<UploadId>(), Err(InvalidId), "{text:?}");
    }
    assert_eq!(InvalidId.to_string(), "expected 32 hexadecimal digits");
}

#[test]
fn ids_are_ordered_as_their_texts_are() {
    let mut larger = BYTES;
    larger[4] += 1;
    larger[15] = 0;
    let (one, other) = (ClusterId(BYTES), ClusterId(larger));
    assert!(one < other && one.to_string() < other.to_string());
}

#[test]
fn numbers_are_shown_with_the_padding_that_is_asked_for() {
    assert_eq!(DeviceId(7).to_string(), "7");
    assert_eq!(format!("{:>4}|{:<4}|{:04}", Epoch(42), Sequence(42), Generation(42)), "  42|42  |0042");
    assert_eq!(Token(u64::MAX).to_string(), "18446744073709551615");
    assert!(Epoch(9) < Epoch(10), "by number, not by text");
}
