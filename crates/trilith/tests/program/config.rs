//! Settings that are wrong are named, and what would be right.

use crate::server::{Home, program, text};

#[test]
fn a_typo_in_the_file_is_named_with_the_nearest_key() {
    let home = Home::new();
    std::fs::create_dir_all(home.data()).unwrap();
    std::fs::write(home.data().join("trilith.toml"), "s3_adr = \"127.0.0.1:0\"\n").unwrap();
    let output = home.serve_to_the_end(&[]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("trilith.toml") && error.contains("`s3_adr`; did you mean `s3_addr`?"), "{error}");
}

#[test]
fn wrong_values_name_their_key() {
    let home = Home::new();
    for (flags, expected) in [
        (["--sync", "sometimes"], "sync is `always`, `batch:MS` or `off`"),
        (["--device-size", "12 parsecs"], "device_size"),
        (["--cores", "0"], "cores is a number from 1"),
        (["--root-password", "x"], "belong together"),
    ] {
        let output = home.serve_to_the_end(&flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(text(&output.stderr).contains(expected), "{flags:?}: {}", text(&output.stderr));
    }
}

#[test]
fn every_command_explains_itself() {
    let commands: [&[&str]; 9] = [
        &[],
        &["serve"],
        &["bucket"],
        &["bucket", "policy", "set"],
        &["object", "put"],
        &["object", "get"],
        &["device", "format"],
        &["device", "inspect"],
        &["status"],
    ];
    for command in commands {
        let output = program().args(command).arg("--help").output().unwrap();
        let help = text(&output.stdout);
        assert!(output.status.success() && help.contains("Usage: trilith"), "{command:?}: {help}");
    }
    let help = text(&program().args(["object", "put", "--help"]).output().unwrap().stdout);
    assert!(help.contains("Examples:") && help.contains("--endpoint"), "{help}");
}
