use super::*;

const INO: Ino = Ino(7);

#[test]
fn an_inode_is_in_use_until_the_last_reference_and_the_last_open_file_are_gone() {
    let files = Files::default();
    files.refer(INO);
    files.refer(INO);
    let handle = files.open(INO).unwrap();
    assert!(files.lost_its_names(INO));
    assert_eq!(files.forget(INO, 2), None);
    assert_eq!(files.close(handle), Some(INO));
    assert!(!files.lost_its_names(INO), "it has left the table");
    assert_eq!(files.close(handle), None, "it is closed once");
}

#[test]
fn an_inode_with_a_name_leaves_in_silence() {
    let files = Files::default();
    files.refer(INO);
    files.lost_its_names(INO);
    files.named(INO);
    assert_eq!(files.forget(INO, 1), None);
    assert!(!files.lost_its_names(INO));
}

#[test]
fn each_open_file_tells_a_failure_once() {
    let files = Files::default();
    let (one, two) = (files.open(INO).unwrap(), files.open(INO).unwrap());
    files.state(INO).record_failure(&ClientError::BeyondTheEnd);
    let late = files.open(INO).unwrap();
    for handle in [one, two] {
        assert_eq!(files.take_failure(handle), Err(ClientError::BeyondTheEnd));
        assert_eq!(files.take_failure(handle), Ok(()));
    }
    assert_eq!(files.take_failure(late), Ok(()), "it was opened after the failure");
}
