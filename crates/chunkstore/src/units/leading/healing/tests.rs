use std::collections::BTreeSet;
use std::time::Duration;

use env::Instant;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use format::chunk_page::ChunkRow;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use manager::{DeviceState, Manager};
use types::{CellId, DeviceId, Generation, NodeId, ViewNumber};

use super::{Healing, lost_copies};
use crate::leader::Order;
use crate::limits::{
    DAMAGED_AGE, LOSS_WAIT, LOST_LOOK, MAX_HEALING, MAX_MOVING, MAX_REPAIRS, MAX_WAITING, MEND_PATIENCE, NODE_SILENCE,
    ROTTEN_AGE, SHRINK_WAIT,
};
use crate::maintenance::{Answer, MaintenanceUnit, PageRef};
use crate::message::{LiveCopy, NodeAnswer};
use crate::protocol::DamagedBlock;
use crate::units::leading::Leading;
use crate::units::leading::fixture::{CHUNKS, empty_page, leading, manager_of_four, registration_of, report, unit, unit_of};
use crate::wire::limits::{MAX_DAMAGED, MAX_ROTTEN};

/// Chunks that are to be made again, in order.
fn lost_numbers(unit: &MaintenanceUnit, leading: &Leading) -> Vec<u64> {
    let (first, pages, last) = (ChunkNumber(0), ChunkNumber(CHUNKS), ChunkNumber(u64::MAX));
    let lost = leading.leader.lost();
    let copies = lost_copies(unit, lost, pages..last, first).chain(lost_copies(unit, lost, first..pages, first));
    copies.map(|(id, _)| id.number.0).collect()
}

struct Cluster {
    manager: Manager,
    unit: MaintenanceUnit,
    now: Instant,
}

const BLOCKS: u32 = 8;
const CAPACITY: u64 = 1 << 12;
/// Copies in one block.
const BLOCK_CHUNKS: usize = 200;

impl Cluster {
    async fn new() -> Cluster {
        let manager = manager_of_four(BLOCKS).await;
        let mut unit = MaintenanceUnit::new(ShardId(1), CAPACITY);
        for device in (0..4).map(DeviceId) {
            apply(&mut unit, ChunkCommand::Grant { device, first_block: 0, blocks: BLOCKS });
        }
        // Long after the leader began.
        Cluster { manager, unit, now: Instant::from_nanos(0) + 10 * NODE_SILENCE }
    }

    /// Chunks with copies on these devices.
    fn put(&mut self, devices: &[u32], bytes: u32, count: usize) -> Vec<ChunkId> {
        let put = |_| {
            let number = self.unit.next().0;
            let block = number as usize / BLOCK_CHUNKS;
            let places: Vec<BlockPlace> =
                devices.iter().filter_map(|device| BlockPlace::new(DeviceId(*device), block as u32)).collect();
            let places = ChunkPlaces::new(&places).expect("few");
            let call = ClientCall { session: 1, request: number as u32 };
            let registration = Registration {
                call,
                nonce: ChunkNonce(7),
                bytes,
                places,
                wanted: places.as_slice().len() as u8,
                deadline_ms: 1,
            };
            let Answer::Registered { id, .. } = apply(&mut self.unit, ChunkCommand::Register(registration)) else {
                panic!("an id")
            };
            apply(&mut self.unit, ChunkCommand::Commit(id));
            id
        };
        (0..count).map(put).collect()
    }

    /// A leadership that these nodes have reported to.
    fn leading(&self, nodes: &[u32]) -> Leading {
        let mut leading = leading(&self.unit);
        nodes.iter().for_each(|node| _ = leading.reported(self.now, report(*node, Vec::new(), Vec::new())));
        leading.take_stock(self.now, &self.manager.snapshot(), &self.unit);
        leading
    }

    /// Chunks for which it begins relocations now.
    fn healed(&self, leading: &mut Leading) -> Vec<ChunkId> {
        relocated(leading.heal(self.now, &self.manager.snapshot(), &self.unit, &mut || 1).orders)
    }

    fn healed_further(&self, leading: &mut Leading) -> Vec<ChunkId> {
        relocated(leading.heal_on(self.now, &self.manager.snapshot(), &self.unit, &mut || 1))
    }

    /// Relocations of their first copies to device 3 are under way.
    fn begin_moves(&mut self, ids: &[ChunkId]) {
        for id in ids.iter().copied() {
            let from = self.unit.places_of(id).expect("it is there").as_slice()[0];
            let to = BlockPlace::new(DeviceId(3), from.block()).expect("a place");
            apply(&mut self.unit, ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: true }));
        }
    }

    /// No room is left on device 3.
    fn fill(&mut self) {
        for block in 0..BLOCKS {
            let place = BlockPlace::new(DeviceId(3), block).expect("a place");
            while let Some(room) = self.unit.room(place).filter(|room| *room > 0) {
                let places = ChunkPlaces::new(&[place]).expect("one");
                let call = ClientCall { session: 2, request: self.unit.next().0 as u32 };
                let registration = Registration {
                    call,
                    nonce: ChunkNonce(7),
                    bytes: room,
                    places,
                    wanted: places.as_slice().len() as u8,
                    deadline_ms: 1,
                };
                apply(&mut self.unit, ChunkCommand::Register(registration));
            }
        }
    }
}

fn apply(unit: &mut MaintenanceUnit, command: ChunkCommand) -> Answer {
    unit.apply(&command).answer.unwrap_or_else(|refusal| panic!("{command:?}: {refusal}"))
}

/// They waited for it, and as many as may be under way were begun: nothing else was made again.
#[tokio::test(start_paused = true)]
async fn relocations_that_wait_for_a_silent_node_leave_room_for_others() {
    let mut cluster = Cluster::new().await;
    let moving = cluster.put(&[0, 1], 100, MAX_WAITING - 10);
    let waiting = cluster.put(&[0, 1], 100, 300);
    let others = cluster.put(&[0, 2], 100, 20);
    cluster.begin_moves(&moving);
    // Node 2, which has device 1, is away.
    let mut leading = cluster.leading(&[3, 4]);
    assert!(leading.leader.lose(DeviceId(0)));
    let begun = cluster.healed(&mut leading);
    assert_eq!(begun[..20], others, "those that need nobody who is away come first");
    assert_eq!(begun[20..], waiting[..10], "and of those that do no more than some are under way");
    leading.reported(cluster.now, report(2, Vec::new(), Vec::new()));
    assert_eq!(cluster.healed(&mut leading).len(), MAX_REPAIRS, "it is back");
}

/// A new leader whose state of the manager was older than a device took that for lost: its copies were moved without being ended there.
#[tokio::test(start_paused = true)]
async fn a_device_that_the_manager_has_not_named_here_yet_is_not_lost() {
    let mut cluster = Cluster::new().await;
    for device in [DeviceId(4), DeviceId(2)] {
        apply(&mut cluster.unit, ChunkCommand::Grant { device, first_block: BLOCKS, blocks: BLOCKS });
    }
    cluster.manager.set_device_state(DeviceId(2), DeviceState::Failed).await.expect("a device");
    cluster.manager.remove_device(DeviceId(2)).await.expect("it has failed");
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    cluster.healed(&mut leading);
    cluster.now = cluster.now + LOSS_WAIT;
    cluster.healed(&mut leading);
    assert_eq!(leading.leader.lost().devices().iter().copied().collect::<Vec<DeviceId>>(), [DeviceId(2)]);
}

/// They were made again 256 a second, whatever the nodes could do.
#[tokio::test(start_paused = true)]
async fn lost_copies_are_made_again_as_there_is_room_not_once_a_second() {
    let mut cluster = Cluster::new().await;
    let lost = cluster.put(&[0, 1], 100, 2 * MAX_REPAIRS + 1);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    assert!(leading.leader.lose(DeviceId(0)));
    assert_eq!(cluster.healed_further(&mut leading), Vec::new(), "nobody has looked");
    assert_eq!(cluster.healed(&mut leading), lost[..MAX_REPAIRS]);
    assert_eq!(cluster.healed_further(&mut leading), lost[MAX_REPAIRS..2 * MAX_REPAIRS]);
    cluster.begin_moves(&lost[..2 * MAX_REPAIRS]);
    assert_eq!(cluster.healed_further(&mut leading), lost[2 * MAX_REPAIRS..]);
    assert_eq!(cluster.healed_further(&mut leading), Vec::new(), "these were all");
}

/// A tenth of a second later each of them went to another place, and what had begun was undone.
#[tokio::test(start_paused = true)]
async fn relocations_of_lost_copies_that_are_on_their_way_are_not_proposed_again() {
    let mut cluster = Cluster::new().await;
    let lost = cluster.put(&[0, 1], 100, MAX_REPAIRS + 1);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    assert!(leading.leader.lose(DeviceId(0)));
    assert_eq!(cluster.healed(&mut leading), lost[..MAX_REPAIRS]);
    assert_eq!(cluster.healed_further(&mut leading), lost[MAX_REPAIRS..]);
    assert_eq!(cluster.healed(&mut leading).len(), MAX_REPAIRS, "they may have been lost on the way");
}

/// Nothing that stood behind them was made again.
#[tokio::test(start_paused = true)]
async fn copies_that_find_no_place_hide_no_others() {
    let mut cluster = Cluster::new().await;
    let crowded = cluster.put(&[0, 1, 2], 100, MAX_REPAIRS + 1);
    let lucky = cluster.put(&[0, 1, 3], 100, 1);
    cluster.fill();
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    // Else there is always another block of the device.
    cluster.manager.set_device_state(DeviceId(0), DeviceState::Draining).await.expect("a device");
    leading.forget_stock();
    leading.take_stock(cluster.now, &cluster.manager.snapshot(), &cluster.unit);
    for id in crowded.iter().chain(&lucky) {
        let place = cluster.unit.places_of(*id).expect("it is there").as_slice()[0];
        leading.audited(*id, place, Era(0), &NodeAnswer::Absent);
    }
    let missing: Vec<ChunkId> = (0..2).flat_map(|_| cluster.healed(&mut leading)).collect();
    assert_eq!(missing, lucky);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    assert!(leading.leader.lose(DeviceId(0)));
    let lost: Vec<ChunkId> = (0..2).flat_map(|_| cluster.healed(&mut leading)).collect();
    assert_eq!(lost, lucky);
}

/// They counted as tried in vain, and were relocated.
#[tokio::test(start_paused = true)]
async fn rotten_copies_are_not_given_up_before_they_had_a_turn() {
    let mut cluster = Cluster::new().await;
    let rotten = cluster.put(&[0, 1], 100, MAX_REPAIRS + 5);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    let copy = |id: &ChunkId| CopyOf { id: *id, place: cluster.unit.places_of(*id).expect("it is there").as_slice()[0] };
    leading.reported(cluster.now, report(1, rotten.iter().map(copy).collect(), Vec::new()));
    let mended = |healing: Healing| healing.mend.into_iter().map(|mend| mend.id).collect::<Vec<ChunkId>>();
    let heal = |leading: &mut Leading, now| leading.heal(now, &cluster.manager.snapshot(), &cluster.unit, &mut || 1);
    assert_eq!(mended(heal(&mut leading, cluster.now)), rotten[..MAX_REPAIRS]);
    let later = cluster.now + MEND_PATIENCE;
    leading.reported(later, report(1, rotten.iter().map(copy).collect(), Vec::new()));
    (2..=4).for_each(|node| _ = leading.reported(later, report(node, Vec::new(), Vec::new())));
    let healing = heal(&mut leading, later);
    assert_eq!(healing.orders.len(), MAX_REPAIRS, "these are made elsewhere");
    assert_eq!(mended(healing), rotten[MAX_REPAIRS..]);
}

/// A node with many tells of some at a time; each would be new again in every round of them.
#[tokio::test(start_paused = true)]
async fn rotten_copies_that_one_report_has_no_room_for_are_remembered() {
    let mut cluster = Cluster::new().await;
    let rotten = cluster.put(&[0, 1], 100, MAX_ROTTEN + 5);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    let copies: Vec<CopyOf> = rotten
        .iter()
        .map(|id| CopyOf { id: *id, place: cluster.unit.places_of(*id).expect("it is there").as_slice()[0] })
        .collect();
    let mut hear = |seconds, copies: &[CopyOf]| {
        leading.reported(cluster.now + Duration::from_secs(seconds), report(1, copies.to_vec(), Vec::new()));
        leading.ailing_chunks().into_iter().collect::<Vec<ChunkId>>()
    };
    assert_eq!(hear(0, &copies[..MAX_ROTTEN]), rotten[..MAX_ROTTEN]);
    assert_eq!(hear(1, &copies[5..]), rotten);
    assert_eq!(hear(ROTTEN_AGE.as_secs(), &copies[5..]), rotten[5..], "it was not told again");
    assert_eq!(hear(ROTTEN_AGE.as_secs(), &copies[9..12]), rotten[9..12], "a report that has all");
}

/// Those that were not in the last report counted as sound: their copies were not made again, and the last good one could be given up.
#[tokio::test(start_paused = true)]
async fn damaged_blocks_that_one_report_has_no_room_for_are_remembered() {
    let mut cluster = Cluster::new().await;
    // In the first block of each of the two.
    cluster.put(&[0, 1], 100, 1);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    let damaged = |blocks: std::ops::Range<u32>| -> Vec<DamagedBlock> {
        let place = |block| BlockPlace::new(DeviceId(0), block);
        blocks.filter_map(place).map(|place| DamagedBlock { place, is_condemned: false }).collect()
    };
    let mut last_copies_after = |seconds, blocks| {
        leading.reported(cluster.now + Duration::from_secs(seconds), report(1, Vec::new(), damaged(blocks)));
        leading.last_copies(cluster.now, &cluster.manager.snapshot(), &cluster.unit, None, &[DeviceId(1)].into())
    };
    let many = MAX_DAMAGED as u32;
    assert_eq!(last_copies_after(0, 0..many), 1);
    assert_eq!(last_copies_after(1, 5..many + 5), 1, "the other one's block is none of these, and damaged");
    assert_eq!(last_copies_after(DAMAGED_AGE.as_secs(), 5..many + 5), 0, "it was not told again");
    assert_eq!(last_copies_after(DAMAGED_AGE.as_secs(), 0..many), 1);
    assert_eq!(last_copies_after(DAMAGED_AGE.as_secs(), 5..9), 0, "a report that has all");
}

/// Nobody needs its copies; and the block with its rows in it was kept as long as they were.
#[tokio::test(start_paused = true)]
async fn a_chunk_that_ends_keeps_no_damaged_block() {
    let mut cluster = Cluster::new().await;
    let (single, double) = (cluster.put(&[0], 100, 1), cluster.put(&[0, 1], 100, 1));
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    let place = BlockPlace::new(DeviceId(0), 0).expect("a place");
    let damaged = DamagedBlock { place, is_condemned: false };
    leading.reported(cluster.now, report(1, Vec::new(), vec![damaged]));
    let condemned = |cluster: &mut Cluster, leading: &mut Leading| {
        cluster.now = cluster.now + 2 * LOST_LOOK;
        leading.reported(cluster.now, report(2, Vec::new(), Vec::new()));
        leading.heal(cluster.now, &cluster.manager.snapshot(), &cluster.unit, &mut || 1).condemn
    };
    assert_eq!(condemned(&mut cluster, &mut leading), [], "a chunk has its last copy there");
    apply(&mut cluster.unit, ChunkCommand::Freed(single));
    assert_eq!(condemned(&mut cluster, &mut leading), [place]);
    assert!(cluster.unit.is_at_rest(double[0]));
}

/// It may have been brought there already: its source is forgotten then, or was lost before.
#[tokio::test(start_paused = true)]
async fn a_block_is_not_condemned_that_a_last_copy_moves_to() {
    for (from, is_condemned) in [(&[0][..], false), (&[0, 1], true)] {
        let mut cluster = Cluster::new().await;
        let moving = cluster.put(from, 100, 1);
        cluster.begin_moves(&moving);
        let mut leading = cluster.leading(&[1, 2, 3, 4]);
        // Device 3 is that of node 4.
        let place = BlockPlace::new(DeviceId(3), 0).expect("a place");
        cluster.now = cluster.now + 2 * LOST_LOOK;
        (1..4).for_each(|node| _ = leading.reported(cluster.now, report(node, Vec::new(), Vec::new())));
        leading.reported(cluster.now, report(4, Vec::new(), vec![DamagedBlock { place, is_condemned: false }]));
        let healing = leading.heal(cluster.now, &cluster.manager.snapshot(), &cluster.unit, &mut || 1);
        assert_eq!(healing.condemn, if is_condemned { vec![place] } else { Vec::new() });
    }
}

/// A node that had not been heard counted as having its copy: what could have been read after another start was destroyed, and its copy was gone.
#[tokio::test(start_paused = true)]
async fn a_block_is_not_condemned_for_copies_on_nodes_that_are_silent() {
    let mut cluster = Cluster::new().await;
    cluster.put(&[0, 1], 100, 1);
    let mut leading = cluster.leading(&[]);
    let place = BlockPlace::new(DeviceId(0), 0).expect("a place");
    // Node 2 has the other copy.
    let mut condemned = |heard: &[u32]| {
        cluster.now = cluster.now + 2 * LOST_LOOK;
        leading.reported(cluster.now, report(1, Vec::new(), vec![DamagedBlock { place, is_condemned: false }]));
        heard.iter().for_each(|node| _ = leading.reported(cluster.now, report(*node, Vec::new(), Vec::new())));
        leading.heal(cluster.now, &cluster.manager.snapshot(), &cluster.unit, &mut || 1).condemn
    };
    assert_eq!(condemned(&[3, 4]), []);
    assert_eq!(condemned(&[2]), [place]);
    assert_eq!(condemned(&[]), []);
}

/// A device was given up, and what it had was lost with a node that was away already.
#[tokio::test(start_paused = true)]
async fn a_copy_at_a_node_that_is_silent_keeps_no_other_one_from_being_the_last() {
    let mut cluster = Cluster::new().await;
    cluster.put(&[0, 1], 100, 1);
    let mut leading = cluster.leading(&[]);
    let mut lost_with = |heard: u32, device| {
        cluster.now = cluster.now + 2 * LOST_LOOK;
        leading.reported(cluster.now, report(heard, Vec::new(), Vec::new()));
        leading.last_copies(cluster.now, &cluster.manager.snapshot(), &cluster.unit, None, &[DeviceId(device)].into())
    };
    // Nodes 1 and 2 have the two devices.
    assert_eq!([lost_with(2, 0), lost_with(1, 0), lost_with(1, 1), lost_with(2, 1)], [0, 1, 0, 1]);
}

/// Two devices that were given up at the same moment, at two nodes, counted for each other.
#[tokio::test(start_paused = true)]
async fn a_copy_on_a_device_that_is_not_written_to_keeps_no_other_one_from_being_the_last() {
    const CELL: CellId = CellId(1);
    let mut cluster = Cluster::new().await;
    cluster.put(&[0, 1], 100, 1);
    let leading = cluster.leading(&[1, 2, 3, 4]);
    let lost_with =
        |device| leading.last_copies(cluster.now, &cluster.manager.snapshot(), &cluster.unit, None, &[DeviceId(device)].into());
    assert_eq!([lost_with(0), lost_with(1)], [0, 0]);
    let manager = &cluster.manager;
    manager.create_cell(CELL, Generation(0)).await.expect("there is none");
    let gateway = manager.register_gateway(CELL, NodeId(1)).await.expect("registers").gateway;
    let (first, devices) = (ViewNumber(0), [1, 2, 3].map(DeviceId).into());
    manager.found_view(CELL, first, gateway, devices).await.expect("founds");
    assert_eq!([lost_with(0), lost_with(1)], [0, 1]);
}

#[test]
fn pages_are_healed_before_chunks() {
    let mut unit = unit_of(2);
    // The row of a chunk that stands beside the lost page.
    let page = unit.pages().next().expect("a page");
    let Registration { nonce, bytes, places, wanted, .. } = registration_of(0, 2);
    let rows = vec![ChunkRow { number: page.range.first, nonce, places, bytes, wanted, era: Era::first(2) }];
    let mut leading = leading(&unit);
    unit.apply(&ChunkCommand::Touch { page: page.id.number, rows }).answer.expect("the page is the current one");
    [0, 2].into_iter().for_each(|device| assert!(leading.leader.lose(DeviceId(device))));
    let copies: Vec<u64> = lost_numbers(&unit, &leading);
    assert_eq!(copies, [CHUNKS, CHUNKS + 1, CHUNKS + 2, 0]);
}

/// Its relocation would never end: nothing that was freed afterwards would come back, and at last there would be no relocations at all.
#[test]
fn what_has_no_copy_left_is_not_relocated() {
    let unit = unit_of(2);
    let mut leading = leading(&unit);
    let mut lost_with = |device| {
        leading.leader.lose(DeviceId(device));
        lost_numbers(&unit, &leading)
    };
    assert_eq!(lost_with(2), [CHUNKS]);
    assert_eq!(lost_with(3), [CHUNKS + 1], "the first one is gone with this device");
    assert_eq!(lost_with(0), [CHUNKS + 2]);
    assert_eq!(lost_with(1), [0_u64; 0]);
}

/// Its header has fallen back to the one before its era was raised: modifications would be refused there for ever.
#[test]
fn a_copy_of_former_places_is_missing() {
    let unit = unit_of(2);
    let mut leading = leading(&unit);
    let (id, places) = unit.index().next().expect("a page");
    let live = |era| {
        let (version, capacity, content) = (ChunkVersion::default(), 100, None);
        NodeAnswer::Live(LiveCopy { version, era: Era(era), capacity, is_settled: false, content })
    };
    let place = places.as_slice()[0];
    for era in [3, 4] {
        leading.audited(id, place, Era(3), &live(era));
        assert!(leading.ailing_chunks().is_empty(), "a relocation may have begun since");
    }
    leading.audited(id, place, Era(3), &live(2));
    assert!(leading.ailing_chunks().contains(&id));
}

/// The audit goes on behind a page that can't be read, and comes back to it.
#[test]
fn the_audit_passes_over_pages_that_cannot_be_read() {
    let unit = unit();
    let mut leading = leading(&unit);
    let pages: Vec<PageRef> = unit.pages().collect();
    let unread = BTreeSet::from([pages[0].id.number]);
    assert_eq!(leading.audit(&unit, &BTreeSet::new()), Err(pages[0]), "it is to be read first");
    assert_eq!(leading.audit(&unit, &unread), Ok(Vec::<Order>::new()));
    assert_eq!(leading.audit(&unit, &unread), Err(pages[1]));
    for page in &pages[1..] {
        leading.audit_goes_on_with(empty_page(&unit, *page));
        leading.audit(&unit, &unread).expect("it was read");
    }
    // The last one finds that there is nothing left.
    let behind: usize = (0..=pages.len()).map(|_| leading.audit(&unit, &unread).map_or(0, |orders| orders.len())).sum();
    assert_eq!(behind, pages.len(), "the pages' own copies");
    assert_eq!(leading.audit(&unit, &BTreeSet::new()), Err(pages[0]));
}

/// The look for missing copies panicked, and took all of them in a build that checks no sums.
#[tokio::test(start_paused = true)]
async fn lost_copies_that_take_all_room_leave_none_to_missing_ones() {
    let mut cluster = Cluster::new().await;
    let lost = cluster.put(&[0, 1], 100, MAX_REPAIRS + 1);
    let missing = cluster.put(&[2, 1], 100, 1)[0];
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    let place = cluster.unit.places_of(missing).expect("it is there").as_slice()[0];
    leading.audited(missing, place, Era(0), &NodeAnswer::Absent);
    assert!(leading.leader.lose(DeviceId(0)));
    assert_eq!(cluster.healed(&mut leading), lost[..MAX_REPAIRS]);
}

/// When the last copies were lost while relocations took all there may be, these never ended, and nothing of the shard was made again any more.
#[tokio::test(start_paused = true)]
async fn relocations_without_a_copy_leave_room_for_others() {
    let mut cluster = Cluster::new().await;
    let doomed = cluster.put(&[0, 1], 100, MAX_MOVING + 100);
    let others = cluster.put(&[0, 2], 100, 20);
    let mut leading = cluster.leading(&[1, 2, 3, 4]);
    assert!(leading.leader.lose(DeviceId(0)));
    let mut begun = Vec::new();
    loop {
        let healed = cluster.healed(&mut leading);
        if healed.is_empty() {
            break;
        }
        cluster.begin_moves(&healed);
        begun.extend(healed);
    }
    assert_eq!(begun, doomed[..MAX_HEALING]);
    assert!(leading.leader.lose(DeviceId(1)));
    let mut is_all = |ids: &[ChunkId]| (0..3).flat_map(|_| cluster.healed(&mut leading)).collect::<Vec<_>>().starts_with(ids);
    assert!(is_all(&others));
}

/// While the manager had no leader nobody reported, and every lost copy was done without, though there were hosts with room.
#[tokio::test(start_paused = true)]
async fn no_place_is_given_up_while_hardly_anybody_is_heard() {
    let mut cluster = Cluster::new().await;
    cluster.put(&[0, 1, 2], 100, 1);
    let mut leading = cluster.leading(&[]);
    assert!(leading.leader.lose(DeviceId(0)));
    let mut is_given_up = |heard: &[u32]| {
        let is_shrunk = |order: &Order| matches!(order, Order::Propose(ChunkCommand::Relocate(Relocation { to: None, .. })));
        (0..SHRINK_WAIT.as_secs() + 2).any(|_| {
            cluster.now = cluster.now + Duration::from_secs(1);
            heard.iter().for_each(|node| _ = leading.reported(cluster.now, report(*node, Vec::new(), Vec::new())));
            let state = cluster.manager.snapshot();
            leading.take_stock(cluster.now, &state, &cluster.unit);
            leading.heal(cluster.now, &state, &cluster.unit, &mut || 1).orders.iter().any(is_shrunk)
        })
    };
    // Nodes 2 and 3 have the other copies.
    assert!(!is_given_up(&[]) && !is_given_up(&[2]));
    assert!(is_given_up(&[2, 3]));
}

fn relocated(orders: Vec<Order>) -> Vec<ChunkId> {
    let id = |order| match order {
        Order::Propose(ChunkCommand::Relocate(Relocation { id, .. })) => Some(id),
        _ => None,
    };
    orders.into_iter().filter_map(id).collect()
}
