use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

use super::{Budget, HolderId, Notice, Notices};

const LIMIT: usize = 100;

/// A budget, and what the world around it has.
struct World {
    budget: Budget,
    holders: BTreeMap<HolderId, Upload>,
    /// Takes that wait, in their order.
    queue: VecDeque<HolderId>,
    /// Bytes with the engine.
    engine: Vec<usize>,
}

#[derive(Debug, Default)]
struct Upload {
    chunk: usize,
    wants: usize,
    is_asked: bool,
}

impl World {
    fn new() -> World {
        World { budget: Budget::new(LIMIT), holders: BTreeMap::new(), queue: VecDeque::new(), engine: Vec::new() }
    }

    fn enter(&mut self) -> HolderId {
        let id = self.budget.enter();
        self.holders.insert(id, Upload::default());
        id
    }

    fn upload(&mut self, id: HolderId) -> &mut Upload {
        self.holders.get_mut(&id).expect("entered")
    }

    /// Does something with the holder at this place among all, in turn.
    fn with_nth(&mut self, at: usize, deed: impl FnOnce(&mut World, HolderId)) {
        let count = self.holders.len().max(1);
        if let Some(id) = self.holders.keys().nth(at % count).copied() {
            deed(self, id);
        }
    }

    fn take(&mut self, id: HolderId, bytes: usize) -> bool {
        let mut notices = Notices::new();
        let is_lent = self.budget.take(id, bytes, &mut notices);
        match is_lent {
            true => self.upload(id).chunk += bytes,
            false => {
                self.upload(id).wants = bytes;
                self.queue.push_back(id);
            }
        }
        self.hear(notices);
        is_lent
    }

    fn hand_over(&mut self, id: HolderId) {
        self.budget.hand_over(id);
        let upload = self.upload(id);
        upload.is_asked = false;
        let chunk = std::mem::take(&mut upload.chunk);
        if chunk > 0 {
            self.engine.push(chunk);
        }
        self.check();
    }

    fn land(&mut self, at: usize) {
        if self.engine.is_empty() {
            return;
        }
        let bytes = self.engine.swap_remove(at % self.engine.len());
        let mut notices = Notices::new();
        self.budget.give_back(bytes, &mut notices);
        self.hear(notices);
    }

    fn withdraw(&mut self, id: HolderId) {
        let mut notices = Notices::new();
        self.budget.withdraw(id, &mut notices);
        self.upload(id).wants = 0;
        self.queue.retain(|waiting| *waiting != id);
        self.hear(notices);
    }

    fn leave(&mut self, id: HolderId) {
        let mut notices = Notices::new();
        self.budget.leave(id, &mut notices);
        self.queue.retain(|waiting| *waiting != id);
        let Upload { chunk, .. } = self.holders.remove(&id).expect("entered");
        self.hear(notices);
        if chunk > 0 {
            let mut notices = Notices::new();
            self.budget.give_back(chunk, &mut notices);
            self.hear(notices);
        }
    }

    fn hear(&mut self, notices: Notices) {
        for notice in notices {
            match notice {
                Notice::Granted(id) => {
                    assert_eq!(self.queue.pop_front(), Some(id), "in the order of the takes");
                    let upload = self.upload(id);
                    upload.chunk += std::mem::take(&mut upload.wants);
                }
                Notice::Asked(id) => {
                    let upload = self.upload(id);
                    assert!(!upload.is_asked && upload.chunk > 0, "asked once, for something: {upload:?}");
                    upload.is_asked = true;
                }
            }
        }
        self.check();
    }

    /// The invariants that the module states.
    fn check(&self) {
        let held: usize = self.holders.values().map(|upload| upload.chunk).sum();
        // A leaver's chunk is given back right after it has left.
        assert!(self.budget.lent() >= held + self.engine.iter().sum::<usize>());
        assert!(self.budget.lent() <= LIMIT);
        assert_eq!(self.budget.waiting(), self.queue.len());
        let wanted: usize = self.holders.values().map(|upload| upload.wants).sum();
        let kept: usize = self.holders.values().filter(|upload| !upload.is_asked).map(|upload| upload.chunk).sum();
        assert!(kept == 0 || wanted <= LIMIT - kept, "{wanted} wait, {kept} stay");
    }

    /// Everybody does what it was asked, and the engine what it has: all takes must be served in the end.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let asked = self.holders.iter().find(|(_, upload)| upload.is_asked).map(|(id, _)| *id);
            match asked {
                Some(id) => self.hand_over(id),
                None if self.engine.is_empty() => break,
                None => self.land(0),
            }
        }
        assert!(self.queue.is_empty(), "{} takes wait for ever", self.queue.len());
    }
}

#[test]
fn silent_holders_make_room_oldest_first() {
    let mut world = World::new();
    let silent: Vec<_> = (0..10).map(|_| world.enter()).collect();
    for id in &silent {
        assert!(world.take(*id, 10));
    }
    let new = world.enter();
    assert!(!world.take(new, 15));
    let asked: Vec<_> = silent.iter().map(|id| world.holders[id].is_asked).collect();
    assert_eq!(asked, [[true; 2].as_slice(), &[false; 8]].concat());
    world.hand_over(silent[1]);
    world.land(0);
    assert_eq!(world.holders[&new].chunk, 0, "ten bytes are not enough");
    world.hand_over(silent[0]);
    world.land(0);
    assert_eq!(world.holders[&new].chunk, 15);
}

#[test]
fn what_comes_back_by_itself_asks_nobody() {
    let mut world = World::new();
    let (writing, silent, new) = (world.enter(), world.enter(), world.enter());
    assert!(world.take(writing, 60) && world.take(silent, 40));
    world.hand_over(writing);
    assert!(!world.take(new, 60));
    assert!(!world.holders[&silent].is_asked);
    world.land(0);
    assert_eq!((world.holders[&new].chunk, world.holders[&silent].is_asked), (60, false));
}

#[test]
fn an_upload_that_waits_with_a_chunk_in_its_hands_is_asked_too() {
    let mut world = World::new();
    let (one, other) = (world.enter(), world.enter());
    assert!(world.take(one, 50) && world.take(other, 50));
    assert!(!world.take(one, 50) && !world.take(other, 50));
    assert!(world.holders[&one].is_asked && world.holders[&other].is_asked);
    world.settle();
    assert_eq!((world.holders[&one].chunk, world.holders[&other].chunk), (50, 50));
}

#[test]
fn small_takes_do_not_overtake_a_large_one() {
    let mut world = World::new();
    let (writing, large, small) = (world.enter(), world.enter(), world.enter());
    assert!(world.take(writing, 60));
    world.hand_over(writing);
    assert!(!world.take(large, 80) && !world.take(small, 1), "there is room for the small one alone");
    world.withdraw(large);
    assert_eq!(world.holders[&small].chunk, 1, "the next one is served when the first gives up");
}

#[derive(Clone, Debug)]
enum Deed {
    Enter,
    Take(usize, usize),
    HandOver(usize),
    Land(usize),
    Withdraw(usize),
    Leave(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let at = any::<usize>();
    prop_oneof![
        2 => Just(Deed::Enter),
        8 => (at, 1..=LIMIT / 2).prop_map(|(at, bytes)| Deed::Take(at, bytes)),
        1 => (at, 1..=LIMIT).prop_map(|(at, bytes)| Deed::Take(at, bytes)),
        3 => at.prop_map(Deed::HandOver),
        4 => at.prop_map(Deed::Land),
        1 => at.prop_map(Deed::Withdraw),
        1 => at.prop_map(Deed::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn no_more_than_the_limit_is_lent_and_no_take_waits_for_ever(deeds in vec(deed(), 1..120)) {
        let mut world = World::new();
        for deed in deeds {
            match deed {
                Deed::Enter => world.holders.extend([(world.budget.enter(), Upload::default())]),
                Deed::Land(at) => world.land(at),
                Deed::Take(at, bytes) => world.with_nth(at, |world, id| {
                    if world.holders[&id].wants == 0 {
                        world.take(id, bytes);
                    }
                }),
                Deed::HandOver(at) => world.with_nth(at, World::hand_over),
                Deed::Withdraw(at) => world.with_nth(at, World::withdraw),
                Deed::Leave(at) => world.with_nth(at, World::leave),
            }
        }
        world.settle();
        let held: usize = world.holders.values().map(|upload| upload.chunk).sum();
        assert_eq!(world.budget.lent(), held, "what was given back is free");
        for id in world.holders.keys().copied().collect::<Vec<_>>() {
            world.leave(id);
        }
        assert_eq!((world.budget.lent(), world.budget.waiting()), (0, 0));
    }
}
