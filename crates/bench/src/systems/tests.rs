use super::ticks_of;

#[test]
fn processor_time_is_user_and_system_time_whatever_the_process_is_called() {
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 170 25 0 0 20 0 5 0 1000 1 1";
    assert_eq!(ticks_of(stat), Some(195));
    assert_eq!(ticks_of("42 (a) S 1 2"), None);
    assert_eq!(ticks_of(""), None);
}
