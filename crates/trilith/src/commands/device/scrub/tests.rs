use super::*;

fn sound() -> ScrubStatus {
    ScrubStatus {
        device: 2,
        state: ScrubStep::Done,
        bytes: 1000,
        read_bytes: 1000,
        damaged_frames: 0,
        damaged_copies: 0,
        left_copies: 0,
        list_unread: false,
    }
}

#[test]
fn only_what_is_left_is_wrong() {
    let healed = ScrubStatus { damaged_frames: 3, damaged_copies: 2, ..sound() };
    for well in [sound(), ScrubStatus { damaged_frames: 3, ..sound() }, healed.clone()] {
        judge(&[sound(), well.clone()]).unwrap_or_else(|error| panic!("{well:?}: {error}"));
    }
    for (wrong, told) in [
        (ScrubStatus { left_copies: 1, ..healed }, "1 damaged copies could not"),
        (ScrubStatus { list_unread: true, ..sound() }, "list of chunks"),
        (ScrubStatus { state: ScrubStep::Stopped, ..sound() }, "device 2 takes no more writes"),
    ] {
        let error = judge(&[sound(), wrong]).expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn progress_is_told_of_an_empty_device_too() {
    let empty = ScrubStatus { state: ScrubStep::Reading, bytes: 0, read_bytes: 0, ..sound() };
    assert_eq!(line(&empty), "device 2: 0% of 0 B read");
    let half = ScrubStatus { state: ScrubStep::Reading, read_bytes: 500, ..sound() };
    assert_eq!(percent(&half), 50);
    // What was written meanwhile is read too.
    assert_eq!(percent(&ScrubStatus { read_bytes: 2000, ..sound() }), 100);
}
