use super::*;
use crate::limits::MAX_STRING_BYTES;
use proptest::prelude::*;

const SIZE: u64 = 0x0010_0000;

fn facts() -> ExportFacts {
    ExportFacts { size_bytes: SIZE, can_trim: true, description: "a disk".to_owned(), ..ExportFacts::default() }
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &option.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn info_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend(info.to_be_bytes()));
    data
}

fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

fn reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let head = [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &option.to_be_bytes(), &kind.to_be_bytes()].concat();
    [&head[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn error(option: u32, kind: u32, why: &str) -> Vec<u8> {
    reply(option, kind, why.as_bytes())
}

/// What came of a conversation.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    sent: Vec<u8>,
    agreed: Option<(RequestRules, Vec<u8>)>,
    is_over: bool,
    violation: Option<Violation>,
}

/// Speaks with the machine; the server has one export, `disk`, which is the default too. Bytes come in pieces of `cut`.
fn speak(bytes: &[u8], cut: usize) -> Outcome {
    let mut negotiation = Negotiation::default();
    let mut outcome = Outcome::default();
    let mut rest = bytes.chunks(cut.max(1));
    let find = |name: &str| match name {
        "disk" | "" => Ok(("disk", facts())),
        "locked" => Err(OpenError::NotPermitted("it is locked by another".to_owned())),
        _ => Err(OpenError::NoSuchExport),
    };
    loop {
        let step = negotiation.step();
        match step {
            Err(violation) => {
                outcome.violation = Some(violation);
                return outcome;
            }
            Ok(NegotiationOutput::NeedBytes) => {
                outcome.sent.extend(negotiation.take_output());
                match rest.next() {
                    Some(piece) => negotiation.input().extend_from_slice(piece),
                    None => return outcome,
                }
            }
            Ok(NegotiationOutput::List) => {
                let disk = ListedExport { name: "disk".to_owned(), description: "a disk".to_owned() };
                negotiation.listed(Ok(vec![disk]));
            }
            Ok(NegotiationOutput::Find { name }) => negotiation.found(find(&name)),
            Ok(NegotiationOutput::Enter { name }) => {
                if let Some(agreed) = negotiation.entered(find(&name)) {
                    outcome.sent.extend(negotiation.take_output());
                    let rest = [&agreed.input[..], &rest.flatten().copied().collect::<Vec<_>>()].concat();
                    assert_eq!(agreed.offset as usize + rest.len(), bytes.len(), "each byte is counted");
                    outcome.agreed = Some((agreed.rules, rest));
                    return outcome;
                }
            }
            Ok(NegotiationOutput::End) => {
                outcome.sent.extend(negotiation.take_output());
                outcome.is_over = true;
                return outcome;
            }
        }
    }
}

fn after_flags(options: &[Vec<u8>]) -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &options.concat()].concat()
}

/// What is sent to a client that negotiates without zeroes.
fn answers(options: &[Vec<u8>]) -> Vec<u8> {
    let outcome = speak(&after_flags(options), usize::MAX);
    assert_eq!(outcome.violation, None);
    outcome.sent
}

#[test]
fn greeting_as_the_protocol_has_it() {
    assert_eq!(greeting(), *b"NBDMAGICIHAVEOPT\x00\x03");
}

#[test]
fn export_name_golden() {
    let flags = 0b0110_1101_u16; // has flags, flush, FUA, trim, write zeroes
    let expected = [&SIZE.to_be_bytes()[..], &flags.to_be_bytes()].concat();
    assert_eq!(answers(&[option(1, b"disk")]), expected);
    // A client that does not leave the zeroes out gets them.
    let outcome = speak(&[&1_u32.to_be_bytes()[..], &option(1, b"")].concat(), 5);
    assert_eq!(outcome.sent, [&expected[..], &[0; 124]].concat());
    assert!(outcome.agreed.is_some());
}

#[test]
fn export_name_of_nothing_ends_the_connection() {
    let outcome = speak(&after_flags(&[option(1, b"nothing"), option(3, b"")]), usize::MAX);
    assert_eq!(outcome, Outcome { is_over: true, ..Outcome::default() });
}

#[test]
fn go_golden() {
    let mut expected = hex(&[
        // NBD_INFO_EXPORT
        "0003e889045565a9 00000007 00000003 0000000c 0000 0000000000100000 006d",
        // NBD_INFO_BLOCK_SIZE: 512, 4096, 32 MiB
        "0003e889045565a9 00000007 00000003 0000000e 0003 00000200 00001000 02000000",
        // NBD_INFO_NAME
        "0003e889045565a9 00000007 00000003 00000006 0001",
    ]);
    expected.extend(b"disk");
    expected.extend(hex(&["0003e889045565a9 00000007 00000003 00000008 0002"]));
    expected.extend(b"a disk");
    expected.extend(hex(&["0003e889045565a9 00000007 00000001 00000000"]));
    // Unknown information is not asked for.
    assert_eq!(answers(&[option(7, &info_data("", &[3, 1, 99, 2]))]), expected);
}

fn hex(lines: &[&str]) -> Vec<u8> {
    let digits: Vec<u8> = lines.iter().flat_map(|line| line.bytes()).filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

#[test]
fn info_says_the_same_as_go_and_goes_on() {
    let info = answers(&[option(6, &info_data("disk", &[3]))]);
    let go = answers(&[option(7, &info_data("disk", &[3]))]);
    let as_info: Vec<u8> = go.clone();
    assert_eq!(info.len(), as_info.len());
    let outcome = speak(&after_flags(&[option(6, &info_data("disk", &[3])), option(7, &info_data("disk", &[3]))]), 7);
    assert_eq!(outcome.sent, [info, go].concat());
    assert!(outcome.agreed.is_some());
}

#[test]
fn an_export_that_is_not_there_or_not_permitted_is_an_error_and_the_next_option_counts() {
    let sent = answers(&[
        option(7, &info_data("nothing", &[])),
        option(6, &info_data("nothing", &[])),
        option(7, &info_data("locked", &[])),
        option(2, b"ignored"),
    ]);
    let expected = [
        error(7, 0x8000_0006, "there is no export of this name"),
        error(6, 0x8000_0006, "there is no export of this name"),
        error(7, 0x8000_0002, "it is locked by another"),
        reply(2, 1, b""),
    ];
    assert_eq!(sent, expected.concat());
}

#[test]
fn list_golden() {
    let entry = [&string("disk")[..], b"a disk"].concat();
    let expected = [reply(3, 2, &entry), reply(3, 1, b""), error(3, 0x8000_0003, "this option has no data")];
    assert_eq!(answers(&[option(3, b""), option(3, b"x")]), expected.concat());
}

#[test]
fn options_that_the_server_does_not_have_are_unsupported() {
    let sent = answers(&[option(5, b""), option(11, b""), option(4, b"disk"), option(77, b"x"), option(5, b"x")]);
    let expected = [
        error(5, 0x8000_0001, "this server does not speak TLS"),
        error(11, 0x8000_0001, "this server does not know this option"),
        error(4, 0x8000_0001, "this server does not know this option"),
        error(77, 0x8000_0001, "this server does not know this option"),
        error(5, 0x8000_0003, "this option has no data"),
    ];
    assert_eq!(sent, expected.concat());
}

#[test]
fn metadata_contexts_golden() {
    let structured = reply(8, 1, b"");
    let listed = [reply(9, 4, b"\0\0\0\0base:allocation"), reply(9, 1, b"")].concat();
    let set = [reply(10, 4, b"\0\0\0\x01base:allocation"), reply(10, 1, b"")].concat();
    let cases: [(u32, &[&str], Vec<u8>); 8] = [
        (9, &[], listed.clone()),
        (9, &["base:"], listed.clone()),
        (9, &["x-no:thing", "base:allocation", "base:"], listed),
        (9, &["base:other"], reply(9, 1, b"")),
        (10, &[], reply(10, 1, b"")),
        (10, &["base:"], reply(10, 1, b"")),
        (10, &["base:allocation", "qemu:dirty-bitmap:b"], set),
        (10, &["nocolon"], error(10, 0x8000_0003, "a query begins with a namespace and a colon")),
    ];
    for (code, queries, expected) in cases {
        let sent = answers(&[option(8, b""), option(code, &meta_data("disk", queries))]);
        assert_eq!(sent, [structured.clone(), expected].concat(), "{code} {queries:?}");
    }
    let before = error(10, 0x8000_0003, "negotiate structured replies first");
    assert_eq!(answers(&[option(10, &meta_data("disk", &["base:allocation"]))]), before);
    let unknown = error(9, 0x8000_0006, "there is no export of this name");
    assert_eq!(answers(&[option(8, b""), option(9, &meta_data("nothing", &[]))]), [structured, unknown].concat());
}

#[test]
fn a_context_holds_for_the_export_for_which_it_was_set_last() {
    let set = |name: &str, queries: &[&str]| option(10, &meta_data(name, queries));
    let go = || option(7, &info_data("disk", &[]));
    let rules = |options: &[Vec<u8>]| speak(&after_flags(options), usize::MAX).agreed.expect("it is there").0;
    assert!(rules(&[option(8, b""), set("disk", &["base:allocation"]), go()]).has_map);
    assert!(!rules(&[option(8, b""), set("", &["base:allocation"]), go()]).has_map);
    assert!(!rules(&[option(8, b""), set("disk", &["base:allocation"]), set("disk", &[]), go()]).has_map);
    // Also a set that fails replaces the one before.
    assert!(!rules(&[option(8, b""), set("disk", &["base:allocation"]), set("disk", &["?"]), go()]).has_map);
    let rules = rules(&[option(8, b""), go()]);
    assert!(rules.is_structured && rules.transmission_flags() & 1 << 7 != 0, "don't fragment comes with structured replies");
}

#[test]
fn malformed_data_is_refused_and_the_connection_goes_on() {
    let too_long = "x".repeat(MAX_STRING_BYTES + 1);
    let name_beyond_data = [&9_u32.to_be_bytes()[..], b"disk\0\0"].concat();
    let cases: Vec<(u32, Vec<u8>)> = vec![
        (7, vec![]),
        (7, name_beyond_data.clone()),
        (7, info_data("disk", &[1])[..10].to_vec()),
        (7, [info_data("disk", &[1]), vec![0]].concat()),
        (7, info_data("di\0sk", &[])),
        (6, info_data(&too_long, &[])),
        (6, [&1_u32.to_be_bytes()[..], b"\xff\0\0"].concat()),
        (9, name_beyond_data),
        (10, meta_data("disk", &["base:allocation"])[..20].to_vec()),
        (10, [string("disk"), u32::MAX.to_be_bytes().to_vec()].concat()),
    ];
    for (code, data) in cases {
        let sent = answers(&[option(8, b""), option(code, &data), option(2, b"")]);
        let refused = error(code, 0x8000_0003, "the data of this option is malformed");
        assert_eq!(sent, [reply(8, 1, b""), refused, reply(2, 1, b"")].concat(), "{code} {data:?}");
    }
}

#[test]
fn what_can_not_be_followed_ends_the_connection() {
    let violation = |bytes: &[u8]| speak(bytes, usize::MAX).violation;
    assert_eq!(violation(&7_u32.to_be_bytes()), Some(Violation::ClientFlags { found: 7, offered: 3 }));
    let found = u64::from_be_bytes(*b"IHAVEOPS");
    assert_eq!(violation(&after_flags(&[b"IHAVEOPS".to_vec()])), Some(Violation::OptionMagic { offset: 4, found }));
    assert_eq!(
        violation(&after_flags(&[option(2, b"")[..8].to_vec(), vec![0, 0, 0, 9, 0xff, 0, 0, 0]])),
        Some(Violation::OptionLength { option: 9, found: 0xff00_0000 })
    );
    assert_eq!(violation(&after_flags(&[option(1, b"\xff")])), Some(Violation::ExportName));
    let flood: Vec<Vec<u8>> = (0..=MAX_OPTIONS).map(|_| option(8, b"")).collect();
    assert_eq!(violation(&after_flags(&flood)), Some(Violation::TooManyOptions));
}

#[test]
fn long_data_is_skipped() {
    let long = vec![0; MAX_OPTION_BYTES as usize + 1];
    let sent = speak(&after_flags(&[option(7, &long), option(2, b"")]), 1000).sent;
    assert_eq!(sent, [error(7, 0x8000_0009, "the data of this option is too long"), reply(2, 1, b"")].concat());
}

#[test]
fn a_list_that_is_too_long_is_refused() {
    let mut negotiation = Negotiation::default();
    negotiation.input().extend_from_slice(&after_flags(&[option(3, b"")]));
    assert_eq!(negotiation.step(), Ok(NegotiationOutput::List));
    let export = ListedExport { name: "n".repeat(4000), description: String::new() };
    negotiation.listed(Ok(vec![export; MAX_LIST_REPLY_BYTES / 4000]));
    assert_eq!(negotiation.take_output(), error(3, 0x8000_0009, "there are too many exports to list"));
}

#[test]
fn a_server_that_stops_refuses_all_but_the_end() {
    let mut negotiation = Negotiation::default();
    negotiation.stop();
    let options = [option(3, b""), option(7, &info_data("disk", &[])), option(2, b"")];
    negotiation.input().extend_from_slice(&after_flags(&options));
    assert_eq!(negotiation.step(), Ok(NegotiationOutput::End));
    let why = "the server is shutting down";
    let expected = [error(3, 0x8000_0007, why), error(7, 0x8000_0007, why), reply(2, 1, b"")];
    assert_eq!(negotiation.take_output(), expected.concat());
}

fn any_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("disk"), Just(""), Just("nothing"), Just("locked")];
    let query = prop_oneof![Just("base:allocation"), Just("base:"), Just("x:y"), Just("nocolon")];
    prop_oneof![
        (0..13_u32, proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(code, data)| option(code, &data)),
        (6..8_u32, name.clone(), proptest::collection::vec(0..5_u16, 0..4))
            .prop_map(|(code, name, infos)| option(code, &info_data(name, &infos))),
        (9..11_u32, name, proptest::collection::vec(query, 0..3))
            .prop_map(|(code, name, queries)| option(code, &meta_data(name, &queries))),
        Just(option(8, b"")),
        Just(option(3, b"")),
    ]
}

proptest! {
    /// However the bytes are cut, the outcome is the same. (A violation is told as early as it can be, and what was sent
    /// before then may differ.)
    #[test]
    fn cuts_do_not_matter(options in proptest::collection::vec(any_option(), 0..8), cut in 1..50_usize, more in any::<[u8; 3]>()) {
        let bytes = [after_flags(&options), more.to_vec()].concat();
        let (whole, cut) = (speak(&bytes, usize::MAX), speak(&bytes, cut));
        if whole.violation.is_none() || cut.violation.is_none() {
            prop_assert_eq!(whole, cut);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 1..50_usize) {
        speak(&bytes, cut);
        speak(&after_flags(&[bytes]), cut);
    }
}
