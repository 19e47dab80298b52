use super::{Files, is_of_one};
use crate::client::Listed;
use anyhow::Context;
use std::io::{Error, ErrorKind};

fn listed(key: &str, length: u64) -> Listed {
    Listed { key: key.to_owned(), length, modified: String::new() }
}

/// The paths of these keys, and what is said of those that have none.
fn places(keys: &[&str]) -> Vec<Result<Option<String>, String>> {
    let mut files = Files::default();
    let place = |key: &&str| {
        let place = files.place_of(&listed(key, 1), "p/").map_err(|error| error.to_string())?;
        Ok(place.map(|path| path.to_str().expect("text").to_owned()))
    };
    keys.iter().map(place).collect()
}

#[test]
fn a_key_is_left_out_that_needs_a_folder_where_a_file_is() {
    let places = places(&["p/a", "p/a-b", "p/a-b/c", "p/a/b", "p/a/b/c", "p/ab", "p/b/c", "p/b/c/d", "p/bc"]);
    let path = |path: &str| Ok(Some(path.to_owned()));
    let kept = [path("a"), path("a-b"), path("ab"), path("b/c"), path("bc")];
    assert_eq!(places.iter().filter(|place| place.is_ok()).cloned().collect::<Vec<_>>(), kept);
    let why: Vec<&String> = places.iter().filter_map(|place| place.as_ref().err()).collect();
    assert!(why.len() == 4 && why[0].contains("p/a-b is a file") && why[1].contains("p/a is a file"), "{why:?}");
}

#[test]
fn a_key_is_left_out_that_is_no_path() {
    for key in ["p//x", "p/..", "p/../x", "p/x/./y", "p/with content/"] {
        assert!(places(&[key])[0].is_err(), "{key}");
    }
    assert_eq!(Files::default().place_of(&listed("p/folder/", 0), "p/").expect("a sign"), None);
    assert!(Files::default().place_of(&listed("p/", 0), "p/").expect("a sign").is_none());
}

#[test]
fn what_goes_wrong_with_all_is_not_left_out() {
    let error = |kind: ErrorKind| anyhow::Error::from(Error::from(kind)).context("writing a file");
    for kind in [ErrorKind::NotADirectory, ErrorKind::IsADirectory, ErrorKind::InvalidFilename, ErrorKind::PermissionDenied] {
        assert!(is_of_one(&error(kind)), "{kind}");
    }
    for kind in
        [ErrorKind::StorageFull, ErrorKind::ConnectionReset, ErrorKind::ConnectionRefused, ErrorKind::ReadOnlyFilesystem]
    {
        assert!(!is_of_one(&error(kind)), "{kind}");
    }
    assert!(is_of_one(&Err::<(), _>(Error::from_raw_os_error(84)).context("a name that is no text").unwrap_err()));
}
