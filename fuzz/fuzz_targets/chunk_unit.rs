//! `chunkstore::maintenance::MaintenanceUnit::from_image`: no bytes of a snapshot make it panic, and what it accepts survives being written again.
#![no_main]

use chunkstore::maintenance::MaintenanceUnit;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(unit) = MaintenanceUnit::from_image(bytes) {
        assert_eq!(MaintenanceUnit::from_image(&unit.to_image()), Ok(unit));
    }
});
