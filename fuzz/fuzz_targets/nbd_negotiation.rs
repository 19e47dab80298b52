//! The negotiation of the NBD server, against a client that sends what the input says, cut in two ways: nothing panics, what is sent
//! consists of whole replies to the options that came, and the cuts do not matter.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::{arbitrary, fuzz_target};
use nbd::{ExportFacts, ListedExport, Negotiation, NegotiationOutput, OpenError, RequestRules};

#[derive(Arbitrary, Debug)]
enum Piece {
    Raw(Vec<u8>),
    Option { code: u8, data: Vec<u8> },
    Info { is_go: bool, name: Name, infos: Vec<u8> },
    Meta { is_set: bool, name: Name, queries: Vec<Query> },
}

#[derive(Arbitrary, Debug)]
enum Name {
    Default,
    Disk,
    Locked,
    Other(String),
}

#[derive(Arbitrary, Debug)]
enum Query {
    Allocation,
    Namespace,
    Other(String),
}

#[derive(Arbitrary, Debug)]
struct Input {
    flags: u8,
    pieces: Vec<Piece>,
    cut: u8,
    stops_after: Option<u8>,
}

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    sent: Vec<u8>,
    agreed: Option<(RequestRules, Vec<u8>)>,
    is_violated: bool,
}

fuzz_target!(|input: Input| {
    let bytes = bytes_of(&input);
    let whole = speak(&bytes, bytes.len(), None);
    let cut = speak(&bytes, usize::from(input.cut) + 1, None);
    // A violation is told as early as it can be.
    assert!(whole == cut || whole.is_violated && cut.is_violated, "{whole:?} {cut:?}");
    check_replies(&whole);
    speak(&bytes, usize::from(input.cut) + 1, input.stops_after);
});

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn option(code: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn name(name: &Name) -> Vec<u8> {
    string(match name {
        Name::Default => "",
        Name::Disk => "disk",
        Name::Locked => "locked",
        Name::Other(other) => other,
    })
}

fn bytes_of(input: &Input) -> Vec<u8> {
    let mut bytes = u32::from(input.flags).to_be_bytes().to_vec();
    for piece in &input.pieces {
        bytes.extend(match piece {
            Piece::Raw(raw) => raw.clone(),
            Piece::Option { code, data } => option(u32::from(*code), data),
            Piece::Info { is_go, name: export, infos } => {
                let mut data = name(export);
                data.extend((infos.len() as u16).to_be_bytes());
                infos.iter().for_each(|info| data.extend(u16::from(*info).to_be_bytes()));
                option(if *is_go { 7 } else { 6 }, &data)
            }
            Piece::Meta { is_set, name: export, queries } => {
                let mut data = name(export);
                data.extend((queries.len() as u32).to_be_bytes());
                for query in queries {
                    data.extend(string(match query {
                        Query::Allocation => "base:allocation",
                        Query::Namespace => "base:",
                        Query::Other(other) => other,
                    }));
                }
                option(if *is_set { 10 } else { 9 }, &data)
            }
        });
    }
    bytes
}

fn find(name: &str) -> Result<(&'static str, ExportFacts), OpenError> {
    match name {
        "" | "disk" => Ok(("disk", ExportFacts { size_bytes: 1 << 20, ..ExportFacts::default() })),
        "locked" => Err(OpenError::NotPermitted("it is locked".to_owned())),
        _ => Err(OpenError::NoSuchExport),
    }
}

fn speak(bytes: &[u8], cut: usize, stops_after: Option<u8>) -> Outcome {
    let mut negotiation = Negotiation::default();
    let mut outcome = Outcome::default();
    let mut pieces = bytes.chunks(cut.max(1)).enumerate();
    loop {
        match negotiation.step() {
            Err(_) => {
                outcome.is_violated = true;
                return outcome;
            }
            Ok(NegotiationOutput::NeedBytes) => {
                outcome.sent.extend(negotiation.take_output());
                let Some((index, piece)) = pieces.next() else { return outcome };
                if stops_after.is_some_and(|after| usize::from(after) == index) {
                    negotiation.stop();
                }
                negotiation.input().extend_from_slice(piece);
            }
            Ok(NegotiationOutput::List) => {
                negotiation.listed(Ok(vec![ListedExport { name: "disk".to_owned(), description: String::new() }]));
            }
            Ok(NegotiationOutput::Find { name }) => negotiation.found(find(&name)),
            Ok(NegotiationOutput::Enter { name }) => {
                if let Some(agreed) = negotiation.entered(find(&name)) {
                    outcome.sent.extend(negotiation.take_output());
                    let rest = pieces.flat_map(|(_, piece)| piece);
                    outcome.agreed = Some((agreed.rules, agreed.input.iter().chain(rest).copied().collect()));
                    return outcome;
                }
            }
            Ok(NegotiationOutput::End) => {
                outcome.sent.extend(negotiation.take_output());
                return outcome;
            }
        }
    }
}

/// All that is sent is replies to options; behind them only the answer to `NBD_OPT_EXPORT_NAME`, with or without its zeroes.
fn check_replies(outcome: &Outcome) {
    let mut rest = &outcome.sent[..];
    while let Some((head, after)) = rest.split_first_chunk::<20>()
        && head[..8] == 0x0003_e889_0455_65a9_u64.to_be_bytes()
    {
        let length = u32::from_be_bytes(head[16..].try_into().expect("four bytes")) as usize;
        rest = after.get(length..).expect("a whole reply");
    }
    assert!(matches!(rest.len(), 0 | 10 | 134) && (rest.is_empty() || outcome.agreed.is_some()), "{rest:?}");
}
