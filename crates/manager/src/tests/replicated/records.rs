//! The bytes in the log and in snapshots, and what is remembered of proposals.

use bytes::Bytes;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert_eq, proptest};
use std::collections::BTreeSet;
use types::CellId;

use crate::limits::{MAX_ASSEMBLIES, MAX_PROPOSED_COMMAND_BYTES, MAX_PROPOSERS, PROPOSAL_PIECE_BYTES, PROPOSAL_WINDOW};
use crate::replicated::{Assemblies, Content, Image, Proposal, ProposalError, ProposalId, Sessions};
use crate::{BeginStart, Command, CommandIndex, apply};

const ID: ProposalId = ProposalId { proposer: 0x0807_0605_0403_0201, serial: 258 };

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn piece(offset: usize, bytes: &[u8], is_last: bool) -> Proposal {
    Proposal { id: ID, oldest: 3, content: Content::Piece { offset, bytes: Bytes::copy_from_slice(bytes), is_last } }
}

#[test]
fn golden_proposals() {
    let start: Command = BeginStart { cell: CellId(2) }.into();
    let (proposer, serial, oldest) = ("0102030405060708", "0201000000000000", "0300000000000000");
    let golden = [
        (
            Proposal { id: ID, oldest: 3, content: Content::Whole(start) },
            ["0200", proposer, serial, oldest, "00000000", "040302"],
        ),
        (piece(256, &[9, 8], false), ["0201", proposer, serial, oldest, "00010000", "0908"]),
        (piece(1, &[7], true), ["0202", proposer, serial, oldest, "01000000", "07"]),
    ];
    for (proposal, bytes) in golden {
        assert_eq!(hex(&proposal.encode()), bytes.concat());
        assert_eq!(Proposal::decode(&proposal.encode()), Ok(proposal));
    }
}

#[test]
fn what_is_no_proposal_is_refused() {
    let good = piece(0, &[1], true).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Proposal::decode(&bytes).unwrap_err()
    };
    assert_eq!(Proposal::decode(&[]), Err(ProposalError::Version { found: None }));
    assert_eq!(with(0, 1), ProposalError::Version { found: Some(1) });
    assert_eq!(with(1, 3), ProposalError::Kind { found: 3 });
    assert!(matches!(with(1, 0), ProposalError::Command(_)));
    assert!(matches!(with(17, 0xff), ProposalError::Serial { .. }));
    assert_eq!(with(18, 0), ProposalError::Oldest { oldest: 0, serial: 258 });
    assert!(matches!(with(20, 1), ProposalError::Oldest { .. }));
    assert!(matches!(with(29, 0xff), ProposalError::Piece { .. }));
    assert_eq!(Proposal::decode(&good[..29]), Err(ProposalError::Short { found: 29 }));
    assert_eq!(Proposal::decode(&good[..30]), Err(ProposalError::Piece { offset: 0, length: 0 }));
    let long = piece(0, &vec![1; PROPOSAL_PIECE_BYTES + 1], false).encode();
    assert_eq!(Proposal::decode(&long), Err(ProposalError::Piece { offset: 0, length: PROPOSAL_PIECE_BYTES + 1 }));
    let mut zero = good.clone();
    zero[10..18].fill(0);
    assert_eq!(Proposal::decode(&zero), Err(ProposalError::Serial { found: 0 }));
}

#[test]
fn a_proposer_is_remembered_until_as_many_others_were_heard() {
    let mut sessions = Sessions::default();
    let id = |proposer, serial| ProposalId { proposer, serial };
    assert!(sessions.note(id(1, 1), 1));
    for other in 2..=MAX_PROPOSERS as u64 {
        assert!(sessions.note(id(other, 1), 1));
    }
    assert!(sessions.holds(id(1, 1)) && !sessions.note(id(1, 1), 1), "the first is still there, and heard of again");
    assert!(sessions.note(id(1000, 1), 1));
    assert!(!sessions.holds(id(2, 1)), "the one heard of longest ago has gone");
    assert!(sessions.holds(id(1, 1)) && sessions.are_sound());
}

#[test]
fn what_was_given_up_before_a_proposal_counts_as_seen() {
    let mut sessions = Sessions::default();
    let id = |serial| ProposalId { proposer: 1, serial };
    assert!(sessions.note(id(2), 1) && sessions.note(id(7), 5));
    assert!((1..=4).all(|serial| sessions.holds(id(serial)) && !sessions.note(id(serial), 1)));
    assert!([5, 6, 8].into_iter().all(|serial| !sessions.holds(id(serial))) && sessions.are_sound());
    assert!(sessions.note(id(6), 6) && sessions.holds(id(5)) && sessions.are_sound());
}

#[test]
fn pieces_are_put_together_in_order_only() {
    let mut assemblies = Assemblies::default();
    let bytes = Bytes::from_static(b"abc");
    assert!(!assemblies.put(ID, 3, &bytes), "nothing before it");
    assert!(assemblies.put(ID, 0, &bytes));
    assert!(!assemblies.put(ID, 4, &bytes), "a hole");
    assert!(assemblies.put(ID, 3, &bytes));
    assert!(assemblies.put(ID, 0, &bytes) && assemblies.put(ID, 3, &bytes), "again: they are in place");
    assert_eq!(assemblies.whole(ID, 6, &bytes).unwrap(), b"abcabcabc");
    assert_eq!(assemblies.whole(ID, 3, &bytes), None);
    assert!(!assemblies.put(ID, MAX_PROPOSED_COMMAND_BYTES, &bytes));
    // The next command of the same proposer takes its place; as many of others push it out.
    let next = ProposalId { serial: ID.serial + 1, ..ID };
    assert!(assemblies.put(next, 0, &bytes));
    assert_eq!(assemblies.whole(ID, 6, &bytes), None);
    for proposer in 0..MAX_ASSEMBLIES as u64 {
        assert!(assemblies.whole(next, 3, &bytes).is_some());
        assert!(assemblies.put(ProposalId { proposer, serial: 1 }, 0, &bytes));
    }
    assert_eq!(assemblies.whole(next, 3, &bytes), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Against a set that forgets nothing: within the window each serial is new once, in whatever order.
    #[test]
    fn sessions_remember_every_serial_once(steps in proptest::collection::vec((0u64..3, 0u64..400), 1..400), jump in any::<bool>()) {
        let mut sessions = Sessions::default();
        let mut seen = BTreeSet::new();
        let mut newest = [0; 3];
        for (step, (proposer, back)) in steps.iter().enumerate() {
            let ahead = if jump { PROPOSAL_WINDOW / 2 } else { 200 };
            let last = &mut newest[*proposer as usize];
            let serial = (*last + ahead).saturating_sub(*back * ahead / 200).max(1);
            if serial + PROPOSAL_WINDOW <= *last {
                continue;
            }
            *last = serial.max(*last);
            let is_new = seen.insert((*proposer, serial));
            let id = ProposalId { proposer: *proposer, serial };
            prop_assert_eq!(sessions.holds(id), !is_new, "step {}", step);
            prop_assert_eq!(sessions.note(id, 1), is_new);
        }
        proptest::prop_assert!(sessions.are_sound());
    }

    #[test]
    fn images_survive_their_bytes(count in 0u64..40, serials in proptest::collection::vec((any::<u64>(), 1u64..9000), 0..100)) {
        let mut image = Image::default();
        for index in 1..=count {
            apply(CommandIndex(index), &BeginStart { cell: CellId((index % 5) as u16) }.into(), &mut image.state);
        }
        for (proposer, serial) in serials {
            image.sessions.note(ProposalId { proposer: proposer % 80, serial }, 1 + serial / 2);
            image.assemblies.put(ProposalId { proposer: proposer % 20, serial }, 0, &Bytes::from(vec![serial as u8; 3]));
        }
        let bytes = image.encode();
        prop_assert_eq!(&Image::decode(&bytes).unwrap(), &image);
        proptest::prop_assert!(Image::decode(&bytes[..bytes.len() - 1]).is_err());
        proptest::prop_assert!(Image::decode(&[&[2], &bytes[1..]].concat()).is_err());
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
        if let Ok(proposal) = Proposal::decode(&bytes) {
            prop_assert_eq!(Proposal::decode(&proposal.encode()), Ok(proposal));
        }
        drop(Image::decode(&bytes));
    }
}
