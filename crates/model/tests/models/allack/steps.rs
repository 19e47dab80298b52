//! What the manager, members and primaries do.

use super::{AllAck, Appointment, Entry, Length, Log, MEMBERS, Mask, Member, Node, State, View, Wrong, has, members_of};

/// Through where one log is the other's prefix, as members judge it: by views alone.
pub(super) fn common(log: &[Entry], other: &[Entry]) -> usize {
    log.iter().zip(other).take_while(|(one, two)| one.view == two.view).count()
}

/// Whether two logs agree through the highest opseq at which both name the same view.
pub(super) fn matches(log: &[Entry], other: &[Entry]) -> bool {
    let last = log.iter().zip(other).rposition(|(one, two)| one.view == two.view);
    last.is_none_or(|last| log[..=last] == other[..=last])
}

fn last_position(log: &[Entry]) -> (View, usize) {
    (log.last().map_or(0, |entry| entry.view), log.len())
}

impl AllAck {
    pub(super) fn visible(&self, node: &Node) -> usize {
        match self.wrong {
            Wrong::ShowsUncommitted => usize::from(node.durable),
            _ => usize::from(node.commit),
        }
    }

    /// The manager names the next view.
    pub(super) fn appoint(&self, state: &mut State, primary: Member, voters: Mask) -> Option<()> {
        (state.views.len() < self.views).then_some(())?;
        self.script.get(state.views.len() - 1).is_none_or(|scripted| *scripted == (primary, voters)).then_some(())?;
        let counts = if self.wrong == Wrong::CountsAppointedViews { state.newest() } else { state.active };
        let base = state.view(counts).voters;
        has(base & voters, primary).then_some(())?;
        state.views.push(Appointment {
            primary,
            voters,
            base,
            was_recorded: false,
            reports: [const { None }; MEMBERS],
            sent: None,
            adopted: 0,
            held: [0; MEMBERS],
        });
        Some(())
    }

    /// A member hears of a view, promises it and reports. Whatever it was about to write is durable before that.
    pub(super) fn promise(&self, state: &mut State, member: Member, view: View) -> Option<()> {
        let appointment = state.view(view);
        let is_waiting = appointment.sent.is_none() && state.nodes[appointment.primary].promised <= view;
        let counts = has(appointment.voters, member);
        // Nothing comes of a view that can't begin any more.
        (appointment.sent.is_some() || is_waiting).then_some(())?;
        let node = &mut state.nodes[member];
        (view > node.promised).then_some(())?;
        node.promised = view;
        if self.wrong != Wrong::ForgetsPromises {
            node.promised_durably = view;
        }
        (node.leads, node.serves, node.commit) = (false, false, 0);
        node.durable = node.log.len() as Length;
        let log = node.log.clone();
        if is_waiting && counts {
            state.view_mut(view).reports[member] = Some(log);
        }
        Some(())
    }

    /// The primary has all reports that count, and takes the highest log for its own.
    pub(super) fn adopt(&self, state: &mut State, view: View) -> Option<()> {
        let appointment = state.view(view);
        let primary = appointment.primary;
        (state.nodes[primary].promised == view && appointment.sent.is_none()).then_some(())?;
        let counting = match self.wrong {
            Wrong::AdoptsTheLongest => appointment.voters,
            _ => appointment.voters & appointment.base,
        };
        let reports: Option<Vec<&Log>> = members_of(counting).map(|member| appointment.reports[member].as_ref()).collect();
        let reports = reports?;
        let highest = match self.wrong {
            Wrong::AdoptsTheLongest => reports.into_iter().rev().max_by_key(|log| log.len())?,
            Wrong::AdoptsItsOwn => &state.nodes[primary].log,
            _ => reports.into_iter().max_by_key(|log| last_position(log))?,
        };
        let log = highest.clone();
        let length = log.len() as Length;
        let node = &mut state.nodes[primary];
        (node.leads, node.durable) = (true, length);
        node.value = log.last().map_or(0, |entry| entry.number);
        node.log = log.clone();
        let appointment = state.view_mut(view);
        (appointment.adopted, appointment.held[primary]) = (length, length);
        appointment.sent = Some(log);
        appointment.reports = [const { None }; MEMBERS];
        Some(())
    }

    /// A member gives up what diverges from the primary's log, or takes its next entry; durably, and acknowledges.
    pub(super) fn deliver(&self, state: &mut State, member: Member) -> Option<()> {
        let view = state.nodes[member].promised;
        let appointment = state.view(view);
        (appointment.primary != member).then_some(())?;
        let sent = appointment.sent.clone()?;
        let node = &mut state.nodes[member];
        let keeps = self.wrong == Wrong::KeepsDivergentSuffix;
        let common = if keeps { node.log.len().min(sent.len()) } else { common(&node.log, &sent) };
        if common < node.log.len() {
            self.roll_back(node, common);
        } else if common < sent.len() {
            node.log.push(sent[common]);
            node.value = sent[common].number;
        }
        node.durable = node.log.len() as Length;
        let durable = node.durable;
        state.view_mut(view).held[member] = durable;
        Some(())
    }

    fn roll_back(&self, node: &mut Node, common: usize) {
        let mut undone: Vec<u8> = node.log.drain(common..).map(|entry| entry.old).collect();
        if self.wrong != Wrong::UndoesOldestFirst {
            undone.reverse();
        }
        for old in undone {
            node.value = old;
        }
    }

    fn is_held(&self, state: &State, view: View) -> bool {
        let appointment = state.view(view);
        let waits_for = match self.wrong {
            Wrong::ActivatesWithoutJoiners => appointment.voters & appointment.base,
            _ => appointment.voters,
        };
        members_of(waits_for).all(|member| appointment.held[member] >= appointment.adopted)
    }

    /// The lease of another primary is over.
    fn may_begin(&self, state: &State, view: View) -> bool {
        let is_same = |holder: View| state.view(holder).primary == state.view(view).primary;
        let mut holders = (1..view).filter(|holder| has(state.leases, usize::from(*holder)));
        self.wrong == Wrong::IgnoresTheLease || holders.all(is_same)
    }

    fn leads(&self, state: &State, view: View) -> bool {
        let node = &state.nodes[state.view(view).primary];
        node.promised == view && node.leads
    }

    /// The manager records that a view is active, as its primary asks.
    pub(super) fn record(&self, state: &mut State, view: View) -> Option<()> {
        (view == state.newest() && !state.view(view).was_recorded && self.leads(state, view)).then_some(())?;
        (self.is_held(state, view) && self.may_begin(state, view)).then_some(())?;
        state.view_mut(view).was_recorded = true;
        state.active = view;
        let kept = if self.wrong == Wrong::IgnoresTheLease { state.leases } else { 0 };
        state.leases = kept | 1 << view;
        Some(())
    }

    /// The primary hears of that.
    pub(super) fn learn_record(&self, state: &mut State, view: View) -> Option<()> {
        let needs_none = self.wrong == Wrong::ServesUnrecordedViews;
        let is_active =
            state.view(view).was_recorded || needs_none && view > 1 && self.is_held(state, view) && self.may_begin(state, view);
        (is_active && self.leads(state, view)).then_some(())?;
        let (primary, adopted) = (state.view(view).primary, state.view(view).adopted);
        let node = &mut state.nodes[primary];
        (!node.serves).then_some(())?;
        (node.serves, node.commit) = (true, adopted);
        Some(())
    }

    /// Whoever may hold it is not given it again once there is a newer view; so it ends only then.
    pub(super) fn end_lease(state: &mut State) -> Option<()> {
        state.leases &= 1 << state.newest();
        Some(())
    }

    pub(super) fn append(&self, state: &mut State, view: View) -> Option<()> {
        let primary = state.view(view).primary;
        let node = &mut state.nodes[primary];
        (node.promised == view && node.serves && state.appended < self.entries).then_some(())?;
        state.appended += 1;
        node.log.push(Entry { view, number: state.appended, old: node.value });
        node.value = state.appended;
        let log = node.log.clone();
        state.view_mut(view).sent = Some(log);
        Some(())
    }

    pub(super) fn persist(state: &mut State, member: Member) -> Option<()> {
        let node = &mut state.nodes[member];
        node.durable = node.log.len() as Length;
        let (durable, view, leads) = (node.durable, node.promised, node.leads);
        if leads {
            state.view_mut(view).held[member] = durable;
        }
        Some(())
    }

    pub(super) fn commit(state: &mut State, view: View) -> Option<()> {
        let appointment = state.view(view);
        let least = members_of(appointment.voters).map(|member| appointment.held[member]).min()?;
        let node = &mut state.nodes[appointment.primary];
        (node.promised == view && node.serves && node.commit < least).then_some(())?;
        node.commit = least;
        Some(())
    }

    /// Forgets what no action can use any more: there are fewer states then.
    pub(super) fn tidy(&self, state: &mut State) {
        for view in 1..=state.newest() {
            if !self.leads(state, view) && state.view(view).sent.is_some() {
                state.view_mut(view).held = [0; MEMBERS];
            }
            if state.nodes.iter().all(|node| node.promised_durably > view && node.promised > view) {
                let appointment = state.view_mut(view);
                appointment.sent = None;
                appointment.reports = [const { None }; MEMBERS];
                (appointment.held, appointment.adopted) = ([0; MEMBERS], 0);
            }
        }
    }

    /// A restart.
    pub(super) fn crash(&self, state: &mut State, member: Member) -> Option<()> {
        (state.crashes < self.crashes).then_some(())?;
        let before = state.nodes[member].clone();
        let node = &mut state.nodes[member];
        node.log.truncate(usize::from(node.durable));
        node.value = node.log.last().map_or(0, |entry| entry.number);
        node.promised = node.promised_durably;
        if self.wrong != Wrong::GoesOnAfterRestart {
            (node.leads, node.serves, node.commit) = (false, false, 0);
        }
        (*node != before).then_some(())?;
        state.crashes += 1;
        Some(())
    }

    /// Clients are told all that they can be: primaries that serve acknowledge what is committed, and show it if they hold the lease.
    pub(super) fn tell(&self, state: &mut State) {
        for view in 1..=state.newest() {
            let node = &state.nodes[state.view(view).primary];
            if node.promised != view || !node.serves {
                continue;
            }
            let is_read = super::may_read(state, view).is_some();
            let count = if is_read { self.visible(node) } else { usize::from(node.commit) };
            let known = &node.log[..count.min(node.log.len())];
            let shared = known.len().min(state.told.len());
            state.contradiction |= known[..shared] != state.told[..shared];
            if known.len() > shared {
                state.told = known.to_vec();
            }
        }
    }
}
