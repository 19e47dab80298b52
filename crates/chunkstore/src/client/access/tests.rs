//! Modifications of a chunk with three copies, of which one is not what it was, or is not known to whoever asks.

use std::collections::VecDeque;

use format::chunk_block::{ChunkVersion, Era};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::{Access, Intent};
use crate::client::{Event, Next, Outcome, Send};
use crate::message::{Found, NodeRequest};
use crate::storage_node::tests::rig::{Rig, end, id, text, write};

const COPIES: u32 = 3;

/// A node for each copy.
struct Nodes {
    rigs: Vec<Rig>,
    /// Of whose copies the unit's leader was told.
    suspected: Vec<u32>,
    /// Copies that a lookup host knows, the first ones, and those that the unit knows.
    routed: u32,
    known: ChunkPlaces,
    /// What happens while a call waits for the first time.
    meanwhile: Option<fn(&mut Nodes)>,
}

fn place(node: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(node), 1).expect("small numbers")
}

fn places_of(copies: u32) -> ChunkPlaces {
    let places: Vec<BlockPlace> = (0..copies).map(place).collect();
    ChunkPlaces::new(&places).expect("few")
}

fn put_in(era: Era) -> NodeRequest {
    NodeRequest::Put { era, capacity: 100, content: text("first") }
}

fn modify(writer: u64, content: &str) -> Intent {
    Intent::Modify { writer, content: text(content) }
}

impl Nodes {
    fn new() -> Nodes {
        let rigs = (0..COPIES).map(|_| Rig::new()).collect();
        let mut nodes = Nodes { rigs, suspected: Vec::new(), routed: COPIES, known: places_of(COPIES), meanwhile: None };
        nodes.ask_all(&put_in(Era::first(3)));
        nodes
    }

    /// Two copies that are raised since a third one is being made; it is there, if the unit knows of it.
    fn growing(known: u32) -> Nodes {
        let rigs = (0..COPIES).map(|_| Rig::new()).collect();
        let mut nodes = Nodes { rigs, suspected: Vec::new(), routed: 2, known: places_of(known), meanwhile: None };
        let (first, grown) = (Era::first(2), Era::first(2).next(3));
        for rig in &mut nodes.rigs[..2] {
            rig.ask(id(1), put_in(first));
            rig.ask(id(1), NodeRequest::Raise { era: grown });
        }
        if known == COPIES {
            let (version, content) = (ChunkVersion::default(), text("first"));
            let bring = NodeRequest::Bring { relocation: 1, era: grown, capacity: 100, version, is_settled: true, content };
            nodes.rigs[2].ask(id(1), bring);
        }
        nodes
    }

    /// The third of three copies has departed, and is brought to a fourth node while a call waits.
    fn moving() -> Nodes {
        let mut nodes = Nodes::new();
        nodes.rigs.push(Rig::new());
        let era = Era::first(3).next(3);
        nodes.rigs[..2].iter_mut().for_each(|rig| _ = rig.ask(id(1), NodeRequest::Raise { era }));
        nodes.rigs[2].ask(id(1), NodeRequest::Depart { era });
        nodes.meanwhile = Some(|nodes| {
            let (era, version, content) = (Era::first(3).next(3), ChunkVersion::default(), text("first"));
            let bring = NodeRequest::Bring { relocation: 1, era, capacity: 100, version, is_settled: true, content };
            nodes.rigs[3].ask(id(1), bring);
            nodes.known = ChunkPlaces::new(&[0, 1, 3].map(place)).expect("few");
        });
        nodes
    }

    fn ask_all(&mut self, request: &NodeRequest) {
        self.rigs.iter_mut().for_each(|rig| _ = rig.ask(id(1), request.clone()));
    }

    /// One call, which a lookup host sends to this node first.
    fn call(&mut self, intent: Intent, via: u32) -> Outcome {
        let (mut access, Next { sends, mut outcome }) = Access::begin(id(1), intent, 0);
        let mut sends = VecDeque::from(sends);
        loop {
            let event = match sends.pop_front() {
                Some(send) => self.carry_out(send, via),
                None => match outcome {
                    Some(outcome) => return outcome,
                    None => {
                        if let Some(happens) = self.meanwhile.take() {
                            happens(self);
                        }
                        Some(Event::Timeout)
                    }
                },
            };
            if let Some(event) = event {
                let next = access.step(event);
                sends.extend(next.sends);
                outcome = outcome.or(next.outcome);
            }
        }
    }

    fn carry_out(&mut self, send: Send, via: u32) -> Option<Event> {
        let mut ask = |place: BlockPlace, request| self.rigs[place.device().0 as usize].ask(id(1), request).1;
        match send {
            Send::Route { round, has_content, .. } => {
                let request = if has_content { NodeRequest::Read } else { NodeRequest::Query };
                Some(Event::Routed {
                    round,
                    places: places_of(self.routed),
                    place: place(via),
                    answer: ask(place(via), request),
                })
            }
            Send::Node { round, to } => Some(Event::Node { round, place: to.place, answer: ask(to.place, to.request) }),
            Send::Tell(to) => {
                ask(to.place, to.request);
                None
            }
            Send::Find { round, .. } => {
                let found = Found::Known { places: self.known, wanted: 3 };
                Some(Event::Found { round, found })
            }
            Send::Suspect(copy) => {
                self.suspected.push(copy.place.device().0);
                None
            }
            // It has copies.
            Send::Revoke(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn contents(&mut self) -> Vec<Option<String>> {
        self.rigs.iter_mut().map(|rig| rig.content(id(1))).collect()
    }
}

/// It took the version of one that was acknowledged before it began, and stood before that at two copies and after it at the third.
#[test]
fn a_modification_through_a_copy_that_fell_back_is_newer_than_what_the_others_have() {
    for (first, second) in [(9, 3), (3, 9)] {
        let mut nodes = Nodes::new();
        assert_eq!(nodes.call(modify(first, "second"), 0), Outcome::Done);
        nodes.rigs[2].fall_back();
        assert_eq!(nodes.call(modify(second, "third"), 2), Outcome::Done);
        assert_eq!(nodes.contents(), vec![Some("third".to_owned()); 3], "writers {first} and {second}");
        for via in 0..COPIES {
            assert_eq!(nodes.call(Intent::Get, via), Outcome::Content(text("third")));
        }
    }
}

#[test]
fn a_modification_through_a_copy_whose_end_has_rotted_finds_nothing() {
    let mut nodes = Nodes::new();
    nodes.ask_all(&end(Era::first(3).0));
    nodes.rigs[2].fall_back();
    assert_eq!(nodes.call(modify(3, "second"), 2), Outcome::NotFound);
    assert_eq!(nodes.contents(), [None, None, None]);
}

/// It refuses what the others take, and they what it takes: the unit's leader must know, or it stays so for ever.
#[test]
fn a_copy_that_fell_back_to_former_places_is_suspected() {
    for via in 0..COPIES {
        let mut nodes = Nodes::new();
        nodes.ask_all(&NodeRequest::Raise { era: Era::first(3).next(3) });
        nodes.rigs[2].fall_back();
        assert_eq!(nodes.call(modify(3, "second"), via), Outcome::Unavailable);
        assert!(nodes.suspected.contains(&2), "{:?}", nodes.suspected);
    }
}

#[test]
fn a_modification_through_a_settled_copy_asks_no_others() {
    let mut nodes = Nodes::new();
    let (mut access, Next { sends, .. }) = Access::begin(id(1), modify(3, "second"), 0);
    let event = nodes.carry_out(sends[0].clone(), 0).expect("an answer");
    let Next { sends, .. } = access.step(event);
    let is_write = |send: &Send| matches!(send, Send::Node { to, .. } if matches!(to.request, NodeRequest::Write { .. }));
    assert!(sends.len() == COPIES as usize && sends.iter().all(is_write), "{sends:?}");
}

/// Its unit's leader alone knows whether a copy is left: nobody else can be told that it is to go.
#[test]
fn who_deletes_a_chunk_that_nobody_has_tells_the_unit() {
    let (mut access, Next { mut sends, mut outcome }) = Access::begin(id(1), Intent::Delete, 0);
    let mut found = Found::Known { places: places_of(COPIES), wanted: 3 };
    while outcome.is_none() {
        let event = match sends.first() {
            Some(Send::Find { round, .. }) => Event::Found { round: *round, found },
            _ => Event::Timeout,
        };
        if sends.contains(&Send::Revoke(id(1))) {
            found = Found::Unknown;
        }
        Next { sends, outcome } = access.step(event);
    }
    assert_eq!((outcome, found), (Some(Outcome::Done), Found::Unknown));
}

/// It would be complete with two copies, and the third one would go on answering with the former content.
#[test]
fn who_knows_a_place_less_than_there_is_asks_the_unit() {
    for via in 0..2 {
        let mut nodes = Nodes::growing(COPIES);
        assert_eq!(nodes.call(modify(3, "second"), via), Outcome::Done);
        assert_eq!(nodes.contents(), vec![Some("second".to_owned()); 3]);
        let mut nodes = Nodes::growing(COPIES);
        assert_eq!(nodes.call(Intent::Delete, via), Outcome::Done);
        assert_eq!(nodes.contents(), [None, None, None]);
    }
}

/// Nor does it help there, or believe a dead copy.
#[test]
fn who_helps_knows_all_places() {
    let grown = Era::first(2).next(3);
    for (change, outcome, content) in [
        (write(grown.0, 1, "second"), Outcome::Content(text("second")), Some("second".to_owned())),
        (end(grown.0), Outcome::NotFound, None),
    ] {
        let mut nodes = Nodes::growing(COPIES);
        nodes.rigs[0].ask(id(1), change);
        // Of a copy that has not heard of it the former content is as good, as long as no other answer was given.
        match nodes.call(Intent::Get, 0) {
            Outcome::Content(first) if first == text("first") => {
                assert_eq!(nodes.rigs[2].content(id(1)), Some("first".to_owned()))
            }
            told => assert_eq!((told, nodes.contents()), (outcome, vec![content; 3])),
        }
    }
}

#[test]
fn nothing_is_written_while_a_copy_is_being_made() {
    let mut nodes = Nodes::growing(2);
    assert_eq!(nodes.call(Intent::Get, 0), Outcome::Content(text("first")), "what all have is read as ever");
    assert_eq!(nodes.call(modify(3, "second"), 0), Outcome::Unavailable);
    assert_eq!(nodes.contents()[..2], vec![Some("first".to_owned()); 2]);
    assert!(!nodes.suspected.is_empty(), "it may be a header that has rotted");
}

/// Its tries were over within milliseconds, since a copy that has departed says so at once: a relocation takes longer.
#[test]
fn who_meets_a_copy_that_has_departed_waits_for_its_relocation() {
    for via in 0..COPIES {
        let mut nodes = Nodes::moving();
        assert_eq!(nodes.call(modify(3, "second"), via), Outcome::Done);
        let second = Some("second".to_owned());
        assert_eq!(nodes.contents(), [second.clone(), second.clone(), None, second]);
        let mut nodes = Nodes::moving();
        assert_eq!(nodes.call(Intent::Delete, via), Outcome::Done);
        assert_eq!(nodes.contents(), [None, None, None, None]);
    }
}
