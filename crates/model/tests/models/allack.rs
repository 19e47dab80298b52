//! RFD 27: primary-backup replication with all acknowledgements, while views change.
//!
//! States: the manager's views, the last one that became active, and the lease; each member's log, how much of it is durable, the view that it
//! has promised, what it is in that view. A message is a fact that stays: what a primary has sent in a view, what was reported and acknowledged in
//! it. Members take facts in at any time or never, so messages are lost, doubled and late. A crash is a restart: the member forgets what is not
//! durable. A member that is down takes no action.
//!
//! An entry has a number of its own, so that two entries at one position are seen, and the number of its predecessor as the old value. A member's
//! *value* is built on its log in memory: the number of the last entry. A rollback restores it from old values.
//!
//! *Told* is what clients know of: entries that were acknowledged, or could be read at a primary that holds the lease.
//!
//! Left out: trim and dumps, which concern only what all voters hold (the simulation of `allack` has them); `Fetch`, which is part of adopting.
//!
//! Invariants, in every state:
//! - *Durable*: every member of the last active membership holds durably what clients were told.
//! - *Fresh*: a primary that may answer reads shows all that clients were told.
//! - *Agree*: clients are never told two things that contradict each other.
//! - *Matching*: two logs that name one view at one opseq are the same up to there.
//! - *Undone*: the value in memory is that of the log.
//!
//! And each of these is reached, or the above would say nothing: see [`AllAck::examples`].

mod steps;
mod tests;

use super::explore;
use stateright::{Model, Property};

const MEMBERS: usize = 3;

type Member = usize;
/// Counts views; 1 is the first.
type View = u8;
/// A set of members, or of views.
type Mask = u8;
/// How many entries.
type Length = u8;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A member reports before its promise is durable, and a crash takes the promise.
    ForgetsPromises,
    /// The membership that counts is that of the view before, active or not.
    CountsAppointedViews,
    /// The primary takes its view for active without the manager's record.
    ServesUnrecordedViews,
    /// A view becomes active while the former primary may still answer reads.
    IgnoresTheLease,
    /// The primary shows what it has persisted itself, before all have acknowledged.
    ShowsUncommitted,
    /// A view becomes active before its new voters hold its log.
    ActivatesWithoutJoiners,
    /// A member appends behind whatever it has.
    KeepsDivergentSuffix,
    /// A primary that restarts goes on.
    GoesOnAfterRestart,
    /// The longest report wins, whichever voter it comes from.
    AdoptsTheLongest,
    /// A primary takes its own log, whatever was reported. Not wrong for what clients were told; it gives up more entries than it must.
    AdoptsItsOwn,
    /// A rollback restores old values oldest first.
    UndoesOldestFirst,
}

/// The bounds.
#[derive(Clone, Debug)]
struct AllAck {
    views: usize,
    entries: Length,
    crashes: u8,
    /// The primaries and voters of the views after the first, if only these are to be named: a view of each kind otherwise.
    script: &'static [(Member, Mask)],
    wrong: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    view: View,
    number: u8,
    old: u8,
}

type Log = Vec<Entry>;

/// What the manager and the network know of a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Appointment {
    primary: Member,
    /// The others are learners.
    voters: Mask,
    /// The last active membership when the view was named.
    base: Mask,
    was_recorded: bool,
    reports: [Option<Log>; MEMBERS],
    /// The primary's log as it has sent it; none before it has adopted one.
    sent: Option<Log>,
    adopted: Length,
    /// What each member has acknowledged.
    held: [Length; MEMBERS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Node {
    log: Log,
    durable: Length,
    promised: View,
    /// What a crash leaves of it; the same, if nothing is wrong.
    promised_durably: View,
    value: u8,
    /// It is the primary of the promised view, and has adopted a log.
    leads: bool,
    /// It knows that its view is active.
    serves: bool,
    commit: Length,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    nodes: [Node; MEMBERS],
    /// View 1 first.
    views: Vec<Appointment>,
    /// The last one that the manager has recorded as active.
    active: View,
    /// The views whose primaries may hold it; one, if nothing is wrong.
    leases: Mask,
    told: Log,
    contradiction: bool,
    appended: u8,
    crashes: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Appoint { primary: Member, voters: Mask },
    Promise { member: Member, view: View },
    Adopt(View),
    Deliver(Member),
    Record(View),
    LearnRecord(View),
    EndLease,
    Append(View),
    Persist(Member),
    Commit(View),
    Crash(Member),
}

fn has(mask: Mask, member: Member) -> bool {
    mask & (1 << member) != 0
}

fn members_of(mask: Mask) -> impl Iterator<Item = Member> {
    (0..MEMBERS).filter(move |member| has(mask, *member))
}

impl State {
    fn view(&self, view: View) -> &Appointment {
        &self.views[usize::from(view) - 1]
    }

    fn view_mut(&mut self, view: View) -> &mut Appointment {
        &mut self.views[usize::from(view) - 1]
    }

    fn newest(&self) -> View {
        self.views.len() as View
    }

    fn voters(&self, view: View) -> impl Iterator<Item = Member> + use<> {
        members_of(self.view(view).voters)
    }
}

impl AllAck {
    fn candidates(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![Action::EndLease];
        for member in 0..MEMBERS {
            actions.extend([Action::Deliver(member), Action::Persist(member), Action::Crash(member)]);
            actions.extend((1..1 << MEMBERS).map(|voters| Action::Appoint { primary: member, voters }));
            actions.extend((1..=state.newest()).map(|view| Action::Promise { member, view }));
        }
        for view in 1..=state.newest() {
            actions.extend([Action::Adopt(view), Action::Record(view), Action::LearnRecord(view)]);
            actions.extend([Action::Append(view), Action::Commit(view)]);
        }
        actions
    }

    /// The state after an action, or nothing if it can't be taken.
    fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Appoint { primary, voters } => self.appoint(&mut state, primary, voters),
            Action::Promise { member, view } => self.promise(&mut state, member, view),
            Action::Adopt(view) => self.adopt(&mut state, view),
            Action::Deliver(member) => self.deliver(&mut state, member),
            Action::Record(view) => self.record(&mut state, view),
            Action::LearnRecord(view) => self.learn_record(&mut state, view),
            Action::EndLease => Self::end_lease(&mut state),
            Action::Append(view) => self.append(&mut state, view),
            Action::Persist(member) => Self::persist(&mut state, member),
            Action::Commit(view) => Self::commit(&mut state, view),
            Action::Crash(member) => self.crash(&mut state, member),
        }?;
        self.tell(&mut state);
        self.tidy(&mut state);
        (state != *last).then_some(state)
    }

    /// What must happen somewhere.
    fn examples() -> Vec<Property<Self>> {
        vec![
            Property::sometimes("a divergent suffix is to be rolled back", |_: &AllAck, state: &State| {
                let diverges = |node: &Node| {
                    let sent = state.view(node.promised).sent.as_ref();
                    sent.is_some_and(|sent| steps::common(&node.log, sent) < node.log.len())
                };
                state.nodes.iter().any(diverges)
            }),
            Property::sometimes("a view that never was active is passed over", |_: &AllAck, state: &State| {
                state.active > 2 && !state.view(2).was_recorded
            }),
            Property::sometimes("a joiner becomes a member, and an entry follows", |_: &AllAck, state: &State| {
                let appointment = state.view(state.active);
                appointment.voters & !appointment.base != 0 && state.told.iter().any(|entry| entry.view == state.active)
            }),
            Property::sometimes("an entry that was not committed outlives its view", |model: &AllAck, state: &State| {
                let newest = state.newest();
                let adopts_more = usize::from(state.view(newest).adopted) > state.told.len();
                adopts_more && model.step(state, Action::Record(newest)).is_some()
            }),
            Property::sometimes("an old primary reads while another view waits", |_: &AllAck, state: &State| {
                let newest = state.view(state.newest());
                (1..state.newest()).any(|view| {
                    newest.sent.is_some() && newest.primary != state.view(view).primary && may_read(state, view).is_some()
                })
            }),
        ]
    }
}

/// The primary of a view, if it may answer reads.
fn may_read(state: &State, view: View) -> Option<&Node> {
    let node = &state.nodes[state.view(view).primary];
    (node.promised == view && node.serves && has(state.leases, usize::from(view))).then_some(node)
}

impl Model for AllAck {
    type State = State;
    type Action = Action;

    /// Three voters, or two and a learner.
    fn init_states(&self) -> Vec<State> {
        let node = Node {
            log: Log::new(),
            durable: 0,
            promised: 1,
            promised_durably: 1,
            value: 0,
            leads: false,
            serves: false,
            commit: 0,
        };
        let primary = Node { leads: true, serves: true, ..node.clone() };
        let begin = |voters| {
            let appointment = Appointment {
                primary: 0,
                voters,
                base: voters,
                was_recorded: true,
                reports: [None, None, None],
                sent: Some(Log::new()),
                adopted: 0,
                held: [0; MEMBERS],
            };
            State {
                nodes: [primary.clone(), node.clone(), node.clone()],
                views: vec![appointment],
                active: 1,
                leases: 1 << 1,
                told: Log::new(),
                contradiction: false,
                appended: 0,
                crashes: 0,
            }
        };
        vec![begin(0b111), begin(0b011)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.candidates(state).into_iter().filter(|action| self.step(state, *action).is_some()));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.step(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("durable", |_: &AllAck, state: &State| {
                state.voters(state.active).all(|member| {
                    let node = &state.nodes[member];
                    node.log[..usize::from(node.durable)].starts_with(&state.told)
                })
            }),
            Property::always("fresh", |model: &AllAck, state: &State| {
                let readers = (1..=state.newest()).filter_map(|view| may_read(state, view));
                readers.into_iter().all(|node| model.visible(node) >= state.told.len())
            }),
            Property::always("agree", |_: &AllAck, state: &State| !state.contradiction),
            Property::always("matching", |_: &AllAck, state: &State| {
                let pairs = (0..MEMBERS).flat_map(|a| (0..a).map(move |b| (a, b)));
                pairs.into_iter().all(|(a, b)| steps::matches(&state.nodes[a].log, &state.nodes[b].log))
            }),
            Property::always("undone", |_: &AllAck, state: &State| {
                state.nodes.iter().all(|node| node.value == node.log.last().map_or(0, |entry| entry.number))
            }),
        ];
        properties.extend(AllAck::examples());
        properties
    }
}
