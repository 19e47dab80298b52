//! The pair that the first start makes: shown by the first start that succeeds, and by no other.

use crate::server::{Home, Server, USER, program, text};
use std::path::Path;

/// The keys of the file, by name.
fn pair(data: &Path) -> (String, String) {
    let file = std::fs::read_to_string(data.join("credentials")).unwrap();
    let value = |key: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.unwrap_or_else(|| panic!("no {key} in {file}")).to_owned()
    };
    (value("access_key"), value("secret_key"))
}

#[test]
fn the_first_start_that_succeeds_shows_the_pair() {
    let home = Home::new();
    // What is found wrong after the pair was made.
    let output = home.serve_to_the_end(&["--default-buckets", "Not_A_Name"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("making the default bucket"), "{}", text(&output.stderr));
    let (user, password) = pair(&home.data());
    assert!(!text(&output.stdout).contains(&password), "it came to no greeting");

    let server = home.serve_bare(&[]);
    let greeting = server.stop_and_tell();
    assert!(greeting.contains(&user) && greeting.contains(&password), "{greeting}");
    let greeting = home.serve_bare(&[]).stop_and_tell();
    assert!(greeting.contains(&user) && !greeting.contains(&password), "{greeting}");
    assert_eq!(pair(&home.data()), (user, password));
}

#[test]
fn an_empty_file_is_replaced_with_a_warning() {
    let home = Home::new();
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::write(home.data().join("credentials"), "").unwrap();
    let server = home.serve_bare(&[]);
    let (_, password) = pair(&home.data());
    assert!(server.stop_and_tell().contains(&password));
    let log = std::fs::read_to_string(home.path("server.log")).unwrap();
    assert!(log.contains("the file of credentials is empty"), "{log}");
}

#[test]
fn a_pair_of_the_settings_makes_the_kept_one_invalid_and_says_so() {
    let home = Home::new();
    home.serve_bare(&[]).stop();
    let server = home.serve(&[]);
    let list = |server: &Server| {
        let mut command = program();
        command.args(["bucket", "ls", "--endpoint", &server.s3, "--data"]).arg(home.data()).output().unwrap()
    };
    let output = list(&server);
    let error = text(&output.stderr);
    assert!(error.contains("InvalidAccessKeyId") && error.contains("`credentials` file"), "{error}");
    assert_eq!(server.run(&["bucket", "ls"]), "");
    let greeting = server.stop_and_tell();
    assert!(greeting.contains(USER) && greeting.contains("credentials holds another pair"), "{greeting}");
    // Without settings, the kept pair is valid again.
    let server = home.serve_bare(&[]);
    let output = list(&server);
    assert!(output.status.success(), "{}", text(&output.stderr));
}
