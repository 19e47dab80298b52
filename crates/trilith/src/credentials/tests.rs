use super::*;
use std::os::unix::fs::PermissionsExt;

fn env() -> Env {
    Env::real_with_cores(1)
}

fn is_new(origin: &Origin) -> bool {
    matches!(origin, Origin::New(_))
}

#[test]
fn a_pair_is_new_until_it_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (made, origin) = root(&env(), folder.path(), None).unwrap();
    assert!(is_new(&origin) && made.user.len() == USER_LETTERS && made.password.len() == PASSWORD_LETTERS);
    // A start that failed before its greeting: the next has the same pair to show.
    let (again, origin) = root(&env(), folder.path(), None).unwrap();
    assert!(is_new(&origin) && again == made);
    note_shown(folder.path(), &made).unwrap();
    let (kept, origin) = root(&env(), folder.path(), None).unwrap();
    assert!(matches!(origin, Origin::File) && kept == made);
}

#[test]
fn the_file_is_its_owners_and_replaces_what_a_crash_left() {
    let folder = tempfile::tempdir().unwrap();
    // The remains of a crash: half of the file to be, readable by all, and an empty file.
    std::fs::write(folder.path().join(TEMPORARY), "access_key = ha").unwrap();
    std::fs::write(folder.path().join(FILE), "").unwrap();
    assert!(kept(folder.path()).unwrap().is_none(), "an empty file counts as none");
    let (made, origin) = root(&env(), folder.path(), None).unwrap();
    assert!(is_new(&origin) && kept(folder.path()).unwrap().is_some_and(|kept| kept == made));
    let path = folder.path().join(FILE);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE], "nothing temporary stays");
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    std::fs::write(&path, "access_key = somebody\n").unwrap();
    let error = root(&env(), folder.path(), None).err().expect("refused");
    assert!(error.to_string().contains("credentials lacks `secret_key = ...`"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "access_key = somebody\n");
}

#[test]
fn a_file_of_an_earlier_version_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(FILE), "access_key = somebody\nsecret_key = something\n").unwrap();
    let (kept, origin) = root(&env(), folder.path(), None).unwrap();
    assert!(matches!(origin, Origin::File) && kept.user == "somebody" && kept.password == "something");
}
