//! Scenarios of a few machines, step by step. What they ask for happens when the scenario says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::id::DumpId;
use crate::limits::{MARK_REST, RESEND_AFTER};
use crate::message::Reported;
use types::Token;

const GROUP: GroupId = GroupId(1);
const LIMITS: LogLimits = LogLimits { entries: 4, bytes: 1 << 16 };

/// Nodes 1 to 3, whose messages wait in `sent` and whose records are durable at once.
struct Scene {
    now: Instant,
    machines: BTreeMap<NodeId, Machine>,
    records: BTreeMap<NodeId, u64>,
    sent: Vec<(NodeId, NodeId, Message)>,
    outputs: Vec<(NodeId, Output)>,
}

fn start(id: u32, session: u64, saved: Saved, released: OpSeq) -> Machine {
    Machine::new(Start { me: NodeId(id), group: GROUP, session, limits: LIMITS, saved, released })
}

fn view(number: u64, primary: u32, voters: &[u32], learners: &[u32], base: Option<&[u32]>) -> Appointment {
    let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<Vec<_>>();
    Appointment {
        view: ViewNumber(number),
        token: Token(number),
        primary: NodeId(primary),
        voters: nodes(voters),
        learners: nodes(learners),
        base: base.map(nodes),
        former_lease: Duration::ZERO,
    }
}

impl Scene {
    fn new() -> Scene {
        let machines = (1..=3).map(|id| (NodeId(id), start(id, 1, Saved::default(), OpSeq::ZERO))).collect();
        let now = Instant::from_nanos(1_000_000_000);
        Scene { now, machines, records: BTreeMap::new(), sent: Vec::new(), outputs: Vec::new() }
    }

    fn machine(&mut self, id: u32) -> &mut Machine {
        self.machines.get_mut(&NodeId(id)).expect("it runs")
    }

    fn step(&mut self, id: u32, input: Input) {
        let (now, node) = (self.now, NodeId(id));
        let outputs = self.machine(id).step(input, now).expect("a sound view");
        let records = outputs.iter().filter(|output| matches!(output, Output::Persist(_))).count() as u64;
        for output in outputs {
            match output {
                Output::Send { to, message } => self.sent.push((node, to, message)),
                Output::Persist(_) => {}
                output => self.outputs.push((node, output)),
            }
        }
        if records > 0 {
            let count = self.records.entry(node).or_default();
            *count += records;
            let count = *count;
            self.step(id, Input::Persisted { count });
        }
    }

    /// Delivers what is on its way, until nothing is.
    fn settle(&mut self) {
        while !self.sent.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.sent) {
                self.step(to.0, Input::Message { from, message });
            }
        }
    }

    fn pass(&mut self, duration: Duration) {
        self.now = self.now + duration;
        for id in 1..=3 {
            self.step(id, Input::Tick);
        }
    }

    fn name(&mut self, appointment: &Appointment) {
        for id in 1..=3 {
            self.step(id, Input::View(appointment.clone()));
        }
        self.settle();
    }

    fn serve(&mut self, appointment: &Appointment) {
        self.name(appointment);
        self.step(appointment.primary.0, Input::Recorded(appointment.view));
        self.settle();
        assert!(self.machine(appointment.primary.0).is_serving());
    }

    fn append(&mut self, id: u32) -> Position {
        let position = self.machine(id).append(Bytes::from_static(b"entry")).expect("room");
        self.step(id, Input::Tick);
        position
    }

    fn has(&self, id: u32, output: &Output) -> bool {
        self.outputs.iter().any(|(node, found)| *node == NodeId(id) && found == output)
    }
}

#[test]
fn an_entry_is_committed_when_all_voters_have_it() {
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2, 3], &[], None));
    let position = scene.append(1);
    let through = position.opseq;
    let to_third = scene.sent.pop().expect("an entry for each backup");
    assert_eq!((to_third.1, position.view), (NodeId(3), ViewNumber(1)));
    scene.settle();
    assert!(!scene.has(1, &Output::Committed { through }), "node 3 has not got it");
    scene.pass(RESEND_AFTER);
    scene.settle();
    assert!(scene.has(1, &Output::Committed { through }), "it was sent again");
    assert!(!scene.has(2, &Output::Committed { through }), "the mark rides in a later frame");
    scene.pass(MARK_REST);
    scene.settle();
    assert!(scene.has(2, &Output::Committed { through }) && scene.has(3, &Output::Committed { through }), "or comes alone");
}

#[test]
fn a_mark_and_what_was_released_are_told_again_when_they_are_lost() {
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2, 3], &[], None));
    for _ in 0..LIMITS.entries {
        scene.append(1);
        scene.settle();
    }
    let through = OpSeq(LIMITS.entries as u64);
    assert!(matches!(scene.machine(1).append(Bytes::new()), Err(AppendError::Full { entries: 4, .. })));
    scene.pass(MARK_REST);
    scene.sent.clear();
    assert!(!scene.has(2, &Output::Committed { through }), "the mark is lost");
    scene.pass(ASK_AGAIN_AFTER);
    scene.settle();
    assert!(scene.has(2, &Output::Committed { through }));
    for id in 1..=3 {
        scene.step(id, Input::Released(through));
    }
    scene.sent.clear();
    assert_eq!(scene.machine(1).log().len(), LIMITS.entries, "what backups said is lost");
    scene.pass(ASK_AGAIN_AFTER);
    scene.settle();
    assert_eq!(scene.machine(1).log().len(), 0, "they said it again, and all is trimmed");
    scene.append(1);
}

#[test]
fn a_primary_that_restarts_waits_for_another_view() {
    let mut scene = Scene::new();
    let first = view(1, 1, &[1, 2, 3], &[], None);
    scene.serve(&first);
    scene.append(1);
    scene.settle();
    let saved = Saved { promised: ViewNumber(1), log: scene.machine(1).log().clone(), loading: false };
    scene.machines.insert(NodeId(1), start(1, 2, saved, OpSeq::ZERO));
    scene.records.insert(NodeId(1), 0);
    scene.step(1, Input::View(first));
    assert!(scene.has(1, &Output::CannotLead { view: ViewNumber(1) }));
    scene.outputs.clear();
    scene.pass(ASK_AGAIN_AFTER);
    assert!(scene.has(1, &Output::CannotLead { view: ViewNumber(1) }), "it is said again");
    assert_eq!(scene.machine(1).append(Bytes::new()), Err(AppendError::NotServing));
    scene.serve(&view(2, 1, &[1, 2, 3], &[], Some(&[1, 2, 3])));
    assert_eq!(scene.append(1), Position { view: ViewNumber(2), opseq: OpSeq(2) });
}

/// An answer to a report of an earlier start was reckoned from another log: taking it would give up what was acknowledged.
#[test]
fn an_answer_to_another_report_is_none() {
    let mut scene = Scene::new();
    let appointment = view(1, 1, &[1, 2], &[], None);
    scene.step(2, Input::View(appointment.clone()));
    let Some((_, _, Message { body: Body::Report { id, .. }, .. })) = scene.sent.last().cloned() else { panic!("it reports") };
    scene.serve(&appointment);
    scene.append(1);
    scene.settle();
    let saved = Saved { promised: ViewNumber(1), log: scene.machine(2).log().clone(), loading: false };
    assert_eq!(saved.log.last().opseq, OpSeq(1));
    scene.machines.insert(NodeId(2), start(2, 2, saved, OpSeq::ZERO));
    scene.records.insert(NodeId(2), 0);
    scene.step(2, Input::View(appointment));
    let keep = Some(crate::message::Keep { report: id, through: OpSeq::ZERO });
    let body = Body::Append { keep, after: Position::default(), entries: Vec::new(), commit: OpSeq::ZERO, trim: OpSeq::ZERO };
    let late = Message { group: GROUP, view: ViewNumber(1), body };
    scene.step(2, Input::Message { from: NodeId(1), message: late });
    assert_eq!(scene.machine(2).log().last().opseq, OpSeq(1));
    scene.settle();
    assert_eq!(scene.append(1).opseq, OpSeq(2));
    scene.settle();
    assert!(scene.has(1, &Output::Committed { through: OpSeq(2) }), "the answer to its own report is one");
}

/// Rule 1: a crash would take the promise, and an older view's primary would get acknowledgements again.
#[test]
fn nothing_is_told_before_the_promise_is_durable() {
    for (id, is_primary) in [(1, true), (2, false)] {
        let now = Instant::from_nanos(1);
        let mut machine = start(id, 1, Saved::default(), OpSeq::ZERO);
        let outputs = machine.step(Input::View(view(1, 1, &[1, 2], &[], None)), now).expect("a sound view");
        let promise = Record { group: GROUP, change: Change::Promise(ViewNumber(1)) };
        assert_eq!(outputs, [Output::Persist(promise)]);
        let log = Reported { views: vec![Position::default()], loading: false, released: OpSeq::ZERO };
        let report = Message { group: GROUP, view: ViewNumber(1), body: Body::Report { id: ReportId::default(), log } };
        let from = NodeId(2);
        let early = machine.step(Input::Message { from, message: report }, now).expect("no view");
        assert_eq!(early, [], "a primary waits too");
        let outputs = machine.step(Input::Persisted { count: 1 }, now).expect("no view");
        let told = |output: &Output| matches!(output, Output::Send { message: Message { body: Body::Report { .. }, .. }, .. });
        assert_eq!(outputs.iter().any(told), !is_primary, "{outputs:?}");
        assert!(!outputs.is_empty());
    }
}

#[test]
fn a_primary_knows_who_holds_it_up() {
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2, 3], &[], None));
    let now = scene.now;
    assert_eq!(scene.machine(1).obstacle(now), None, "nothing is under way");
    scene.append(1);
    scene.sent.retain(|(_, to, _)| *to != NodeId(3));
    scene.settle();
    let obstacle = scene.machine(1).obstacle(now).expect("an entry is not committed");
    assert_eq!((obstacle.view, obstacle.level, obstacle.nodes), (ViewNumber(1), OpSeq::ZERO, vec![NodeId(3)]));
    let next = view(2, 1, &[1, 2, 3], &[], Some(&[1, 2, 3]));
    scene.step(1, Input::View(next.clone()));
    scene.step(3, Input::View(next));
    scene.settle();
    let obstacle = scene.machine(1).obstacle(now).expect("a report is missing");
    assert_eq!((obstacle.waits_for, obstacle.nodes), ("reports", vec![NodeId(2)]));
}

/// It may be named as a voter only if what it has beside the log reaches to where its log begins.
#[test]
fn a_learner_is_ready_from_where_its_log_begins() {
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2], &[], None));
    for _ in 0..LIMITS.entries {
        scene.append(1);
        scene.settle();
    }
    let through = OpSeq(LIMITS.entries as u64);
    scene.pass(ASK_AGAIN_AFTER);
    scene.settle();
    (1..=2).for_each(|id| scene.step(id, Input::Released(through)));
    scene.settle();
    assert_eq!(scene.machine(1).log().len(), 0, "all is trimmed");
    scene.serve(&view(2, 1, &[1, 2], &[3], Some(&[1, 2])));
    let dump = DumpId(1);
    assert!(scene.has(1, &Output::TakeDump { dump }));
    scene.step(1, Input::DumpTaken { dump, at: through });
    scene.settle();
    scene.step(1, Input::DumpRead { dump, chunk: 0, last: true, bytes: Bytes::new() });
    scene.settle();
    let load_of = |(_, output): &(NodeId, Output)| if let Output::Load { load, .. } = output { Some(*load) } else { None };
    let load = scene.outputs.iter().find_map(load_of).expect("the dump is loaded");
    scene.step(3, Input::Loaded { load, chunk: 0 });
    scene.settle();
    scene.append(1);
    scene.settle();
    assert_eq!(scene.machine(1).ready_learners(), [(NodeId(3), through)]);
}

/// The primary's word that nothing is needed may come before its commit mark.
#[test]
fn what_is_released_before_it_is_known_as_committed_is_not_forgotten() {
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2, 3], &[], None));
    let through = scene.append(1).opseq;
    scene.settle();
    assert_eq!(scene.machine(2).commit(), OpSeq::ZERO);
    (1..=3).for_each(|id| scene.step(id, Input::Released(through)));
    scene.pass(MARK_REST);
    scene.settle();
    assert_eq!(scene.machine(1).log().len(), 0, "all have released it");
}

/// The old primary hears of nothing, and may answer until its lease ends. The next view asks to be active only behind that.
#[test]
fn a_new_primary_waits_for_the_lease_of_the_old_one() {
    const LEASE: Duration = Duration::from_secs(2);
    let mut scene = Scene::new();
    scene.serve(&view(1, 1, &[1, 2, 3], &[], None));
    let until = scene.now + LEASE;
    scene.step(1, Input::Lease { view: ViewNumber(1), until });
    let next = Appointment { former_lease: LEASE, ..view(2, 2, &[2, 3], &[], Some(&[1, 2, 3])) };
    (2..=3).for_each(|id| scene.step(id, Input::View(next.clone())));
    scene.settle();
    let asked = Output::AskRecord { view: ViewNumber(2) };
    while scene.now < until {
        let now = scene.now;
        assert!(scene.machine(1).may_read(now), "its lease holds");
        assert!(!scene.has(2, &asked), "the old primary may still answer");
        scene.pass(LEASE / 8);
        scene.settle();
    }
    let now = scene.now;
    assert!(!scene.machine(1).may_read(now), "its lease is over");
    scene.pass(ASK_AGAIN_AFTER);
    scene.settle();
    assert!(scene.has(2, &asked));
}
