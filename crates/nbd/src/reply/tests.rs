use super::*;

fn encoded(put: impl FnOnce(&mut BytesMut)) -> Vec<u8> {
    let mut out = BytesMut::new();
    put(&mut out);
    out.to_vec()
}

const COOKIE: Cookie = Cookie(0x0102_0304_0506_0708);

#[test]
fn simple_golden() {
    let expected = b"\x67\x44\x66\x98\x00\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08";
    assert_eq!(encoded(|out| simple(out, COOKIE, None)), expected);
    let expected = b"\x67\x44\x66\x98\x00\x00\x00\x1c\x01\x02\x03\x04\x05\x06\x07\x08";
    assert_eq!(encoded(|out| simple(out, COOKIE, Some(Errno::NoSpace))), expected);
}

#[test]
fn chunks_golden() {
    let span = Span { offset: 0x1000, length: 0x200 };
    let expected =
        b"\x66\x8e\x33\xef\x00\x01\x00\x01\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x02\x08\x00\x00\x00\x00\x00\x00\x10\x00";
    assert_eq!(encoded(|out| data_head(out, COOKIE, true, span)), expected);
    let expected =
        b"\x66\x8e\x33\xef\x00\x00\x00\x02\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x0c\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x02\x00";
    assert_eq!(encoded(|out| hole(out, COOKIE, false, span)), expected);
    let expected =
        b"\x66\x8e\x33\xef\x00\x01\x80\x01\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x09\x00\x00\x00\x05\x00\x03why";
    assert_eq!(encoded(|out| error(out, COOKIE, Errno::Io, "why", None)), expected);
    let expected =
        b"\x66\x8e\x33\xef\x00\x01\x80\x02\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x11\x00\x00\x00\x6c\x00\x03why\x00\x00\x00\x00\x00\x00\x10\x00";
    assert_eq!(encoded(|out| error(out, COOKIE, Errno::Shutdown, "why", Some(0x1000))), expected);
    let descriptors = [Descriptor { length: 0x200, state: 3 }, Descriptor { length: 0x1000, state: 0 }];
    let expected =
        b"\x66\x8e\x33\xef\x00\x01\x00\x05\x01\x02\x03\x04\x05\x06\x07\x08\x00\x00\x00\x14\x00\x00\x00\x01\x00\x00\x02\x00\x00\x00\x00\x03\x00\x00\x10\x00\x00\x00\x00\x00";
    assert_eq!(encoded(|out| block_status(out, COOKIE, &descriptors)), expected);
}

#[test]
fn messages_are_cut_between_characters() {
    let long = "ä".repeat(MAX_STRING_BYTES);
    assert_eq!(message(&long).len(), MAX_STRING_BYTES);
    assert_eq!(message(&format!("x{long}")).len(), MAX_STRING_BYTES - 1);
    assert_eq!(message("short"), "short");
}

#[test]
fn descriptors_join_neighbours_and_end_with_the_span() {
    let extent = |length, is_hole, is_zero| Extent { length, is_hole, is_zero };
    let span = Span { offset: 0, length: 10_240 };
    let extents = [extent(512, true, true), extent(512, true, true), extent(1024, false, false), extent(1 << 40, false, true)];
    let found = descriptors(&extents, span, MAX_EXTENTS);
    let expected = [(1024, 3), (1024, 0), (8192, 2)].map(|(length, state)| Descriptor { length, state });
    assert_eq!(found, expected);
    // One is one, with all that joins it.
    assert_eq!(descriptors(&extents, span, 1), expected[..1]);
    // An export may say less.
    assert_eq!(descriptors(&extents[..1], span, MAX_EXTENTS), [Descriptor { length: 512, state: 3 }]);
    // What lies beyond the span is left out.
    assert_eq!(descriptors(&extents, Span { offset: 0, length: 1024 }, MAX_EXTENTS), expected[..1]);
}
