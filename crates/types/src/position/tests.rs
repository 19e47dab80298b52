use super::*;

/// Small, large, and on both sides of where a byte or a word is full.
const NUMBERS: [u32; 6] = [0, 1, 255, 256, 0x7fff_ffff, u32::MAX];

fn position(activation: u32, offset: u32) -> Position {
    Position { activation: Activation(u64::from(activation)), offset: ZoneOffset(offset) }
}

fn orders() -> Vec<(Order, [u32; 3])> {
    let mut all = Vec::new();
    for generation in NUMBERS {
        for activation in NUMBERS {
            for offset in NUMBERS {
                let order = Order::new(Generation(generation), position(activation, offset));
                all.push((order, [generation, activation, offset]));
            }
        }
    }
    all
}

#[test]
fn orders_compare_generation_then_activation_then_offset() {
    let all = orders();
    for (one, numbers) in &all {
        for (other, others) in &all {
            assert_eq!(one.cmp(other), numbers.cmp(others), "{one:?} and {other:?}");
        }
    }
    let first = Order::default();
    assert!(all.iter().all(|(order, _)| first <= *order), "an order that was never given comes before all others");
}

#[test]
fn an_order_holds_the_position_it_was_made_of() {
    for (order, [generation, activation, offset]) in orders() {
        assert_eq!(order.position(), position(activation, offset));
        assert_eq!(Order::new(Generation(generation), order.position()), order);
    }
}

#[test]
fn positions_go_on_where_a_zone_is_used_again() {
    let (end_of_first_use, start_of_next) = (position(7, u32::MAX), position(8, 0));
    assert!(end_of_first_use < start_of_next);
    assert!(position(7, 1) > position(7, 0));
    assert!(Position::default() < position(1, 0), "\"never\" comes before the first activation");
    // An activation does not fit into 32 bits for ever.
    let late = Position { activation: Activation(1 << 32), offset: ZoneOffset(0) };
    assert!(late > position(u32::MAX, u32::MAX));
}

#[test]
fn places_sort_by_device_then_zone_then_offset() {
    let place = |device, zone, offset| Place { device: DeviceId(device), zone: ZoneIndex(zone), offset: ZoneOffset(offset) };
    let sorted = [place(0, 0, 1), place(0, 1, 0), place(0, 2, 9), place(1, 0, 0), place(1, 0, 64), place(2, 0, 0)];
    let mut places = sorted;
    places.reverse();
    places.sort();
    assert_eq!(places, sorted);
}

#[test]
fn offsets_count_units_and_never_overflow() {
    for units in NUMBERS {
        let offset = ZoneOffset(units);
        assert_eq!(offset.bytes(), u64::from(units) * 64);
        assert_eq!(ZoneOffset::from_bytes(offset.bytes()), offset);
    }
}

#[test]
#[should_panic(expected = "is_multiple_of")]
fn a_byte_within_a_unit_is_no_offset() {
    ZoneOffset::from_bytes(65);
}

#[test]
#[should_panic(expected = "u32::MAX")]
fn a_byte_beyond_the_largest_zone_is_no_offset() {
    ZoneOffset::from_bytes((1 << 32) * 64);
}
