//! Tables of former views: kept until a checkpoint has covered what went by them.

use std::sync::Arc;

use topology::{ReplicaTable, Site};
use types::{DeviceId, Generation, NodeId, ViewNumber};

use super::cells::{CELL, begin, cell, found, install, three_members};
use super::format::hex;
use super::machine::Machine;
use super::nodes::register;
use crate::limits::{MAX_FORMER_TABLES, MAX_FORMER_TABLES_TO_CHANGE, MAX_FORMER_TABLES_TO_GROW};
use crate::{CellError, CellRecord, ForgetTables, Snapshot, UpdateDevice};

/// Generations and devices of the former tables.
fn former(machine: &Machine) -> Vec<(u32, Vec<u32>)> {
    let tables = cell(machine).former_tables;
    let devices = |table: &ReplicaTable| table.devices().iter().map(|device| device.0).collect();
    tables.iter().map(|table| (table.generation().0, devices(table))).collect()
}

fn forget(machine: &mut Machine, below: u32) {
    machine.run(ForgetTables { cell: CELL, below: Generation(below) }).unwrap();
}

#[test]
fn a_table_is_kept_until_a_checkpoint_covers_it() {
    let mut machine = three_members();
    assert_eq!(former(&machine), [], "one table since the founding");
    let whole = cell(&machine).installed.unwrap().table;
    machine.run(install(3, &[1, 2, 3], &[0])).unwrap();
    assert_eq!(cell(&machine).former_tables, [whole], "with the sites of its devices");
    machine.run(install(4, &[1, 2, 3], &[1, 2])).unwrap();
    assert_eq!(former(&machine), [(513, vec![0, 1, 2]), (514, vec![0])]);
    forget(&mut machine, 514);
    assert_eq!(former(&machine), [(514, vec![0])]);
    forget(&mut machine, 514);
    forget(&mut machine, 515);
    assert_eq!(former(&machine), []);
    forget(&mut machine, 900);
    assert_eq!(cell(&machine).installed.unwrap().table.generation(), Generation(515), "the one in force stays");
}

#[test]
fn a_founding_keeps_the_tables_before_it() {
    let mut machine = three_members();
    machine.run(install(3, &[1, 2, 3], &[0])).unwrap();
    let founder = machine.run(register(CELL, NodeId(1))).unwrap().gateway;
    machine.run(begin(4, &[2, 3])).unwrap();
    machine.run(found(4, founder.0, &[1, 2])).unwrap();
    assert_eq!(former(&machine), [(513, vec![0, 1, 2]), (514, vec![0])]);
}

/// Equal layouts name the same devices for every key: the newest says it for all.
#[test]
fn equal_tables_are_kept_once() {
    let mut machine = three_members();
    for view in (3..9).step_by(2) {
        machine.run(install(view, &[1, 2, 3], &[0, 1])).unwrap();
        machine.run(install(view + 1, &[1, 2, 3], &[0, 1, 2])).unwrap();
    }
    assert_eq!(former(&machine), [(518, vec![0, 1])]);
    // Devices that are the same and have another weight are another layout.
    let grown = UpdateDevice { id: DeviceId(2), path: "/dev/x".to_owned(), capacity_bytes: 1 << 41 };
    machine.run(grown).unwrap();
    machine.run(install(9, &[1, 2, 3], &[0, 1, 2])).unwrap();
    assert_eq!(former(&machine), [(518, vec![0, 1]), (519, vec![0, 1, 2])]);
}

/// With so many former tables, each another layout.
fn crowded(count: usize) -> Machine {
    let mut machine = three_members();
    let mut record = cell(&machine);
    let table = |number: usize| {
        let site = |device: u32| Site::new(DeviceId(device), number as u64 + 1, Some(NodeId(device)), ["", "", ""]);
        ReplicaTable::placed(Generation(number as u32), vec![site(7), site(8)]).unwrap()
    };
    record.former_tables = (0..count).map(table).collect();
    machine.0.cells.records_mut().insert(CELL, Arc::new(record));
    machine
}

#[test]
fn many_tables_hold_up_devices_that_come_and_at_last_all() {
    let mut machine = crowded(MAX_FORMER_TABLES_TO_GROW - 1);
    machine.run(install(3, &[1, 2, 3], &[0])).unwrap();
    let too_many = |limit| Err(CellError::TooManyTables { limit });
    assert_eq!(machine.run(install(4, &[1, 2, 3], &[0, 1])), too_many(MAX_FORMER_TABLES_TO_GROW), "one comes in");
    machine.run(install(4, &[1, 2, 3], &[0])).unwrap();
    forget(&mut machine, 1);
    machine.run(install(5, &[1, 2, 3], &[0, 1])).unwrap();

    let mut machine = crowded(MAX_FORMER_TABLES_TO_CHANGE - 1);
    machine.run(install(3, &[1, 2, 3], &[0, 1])).unwrap();
    assert_eq!(machine.run(install(4, &[1, 2, 3], &[0])), too_many(MAX_FORMER_TABLES_TO_CHANGE), "one is lost");
    assert_eq!(Snapshot::from_export(&machine.0.export()).unwrap(), machine.0);
    forget(&mut machine, 1);
    machine.run(install(4, &[1, 2, 3], &[0])).unwrap();
}

/// Nothing else would end in a checkpoint that covers them.
#[test]
fn many_tables_do_not_hold_up_a_founding() {
    let found_over = |count, devices: &[u32]| {
        let mut machine = crowded(count);
        machine.run(install(3, &[1, 2, 3], &[0])).unwrap();
        let founder = machine.run(register(CELL, NodeId(1))).unwrap().gateway;
        machine.run(begin(4, &[2, 3])).unwrap();
        let founded = machine.run(found(4, founder.0, devices));
        assert_eq!(Snapshot::from_export(&machine.0.export()).unwrap(), machine.0);
        founded.map(|_| former(&machine).len())
    };
    let many = MAX_FORMER_TABLES_TO_GROW - 1;
    assert_eq!(found_over(many, &[0, 1]), Ok(many + 2), "some have come back");
    let most = MAX_FORMER_TABLES_TO_CHANGE - 1;
    let too_many = Err(CellError::TooManyTables { limit: MAX_FORMER_TABLES_TO_CHANGE });
    assert_eq!(found_over(most, &[0, 1]), too_many, "the last one is for all");
    assert_eq!(found_over(most, &[0, 1, 2]), Ok(MAX_FORMER_TABLES - 1), "the table before the loss is in force again");
}

#[test]
fn golden_bytes_of_a_cell() {
    let mut record = CellRecord::new(CELL, Generation(3));
    record.former_tables = vec![ReplicaTable::new(Generation(2), vec![DeviceId(0), DeviceId(1)]).unwrap()];
    let golden = concat!(
        "00",         // id
        "00",         // nothing installed
        "0000000000", // members, removing, ended, undecided, fences
        "03",         // generation
        "00",         // last gateway
        "01",         // one former table:
        "02",         // its generation
        "020001",     // two devices
        "02",         // copies
        "00",         // no sites
    );
    assert_eq!(hex(&postcard::to_extend(&record, Vec::new()).unwrap()), golden);
}

#[test]
fn former_tables_that_cannot_be_are_refused() {
    let changes: [fn(&mut CellRecord); 2] =
        [|cell| cell.former_tables.push(cell.installed.clone().unwrap().table), |cell| cell.former_tables.reverse()];
    for change in changes {
        let mut machine = three_members();
        machine.run(install(3, &[1, 2, 3], &[0])).unwrap();
        machine.run(install(4, &[1, 2, 3], &[1])).unwrap();
        let mut record = cell(&machine);
        assert_eq!((record.former_tables.len(), record.view_number()), (2, ViewNumber(5)));
        change(&mut record);
        machine.0.cells.records_mut().insert(CELL, Arc::new(record));
        assert!(Snapshot::from_export(&machine.0.export()).is_err());
    }
    let crowded = crowded(MAX_FORMER_TABLES + 1);
    assert!(Snapshot::from_export(&crowded.0.export()).is_err());
}
