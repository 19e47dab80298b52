//! What options of `serve` do that no other test needs: the file that `--config` names, the region, the log.

use crate::http::Connection;
use crate::server::{Home, Server, text};
use std::path::PathBuf;

fn config(home: &Home, name: &str, content: &str) -> PathBuf {
    let path = home.path(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// The region that the server says a bucket is in.
fn region_of(server: &Server, bucket: &str) -> String {
    server.run(&["bucket", "policy", "set", bucket, "public-read", "--region", "mars-1"]);
    let answer = Connection::open(&server.s3).unwrap().ask("HEAD", &format!("/{bucket}"), &[], b"").unwrap();
    assert_eq!(answer.status, 200);
    answer.header("x-amz-bucket-region").expect("the bucket's region").to_owned()
}

#[test]
fn the_file_that_config_names_counts_instead_of_the_one_in_the_data_folder() {
    let home = Home::new();
    std::fs::create_dir_all(home.data()).unwrap();
    config(&home, "data/trilith.toml", "this = \"is not read\"");
    let named =
        config(&home, "elsewhere.toml", "region = \"mars-1\"\ndefault_buckets = [\"one\", \"two\"]\nsync = \"batch:7\"\n");
    let flags = ["--config", named.to_str().unwrap()];
    let server = home.serve(&flags);
    let listed = server.run(&["bucket", "ls", "--region", "mars-1"]);
    assert!(listed.contains("  one\n") && listed.contains("  two\n"), "{listed}");
    assert!(server.run(&["status"]).contains("sync=batch:7"));
    assert_eq!(region_of(&server, "one"), "mars-1");
    server.stop();
    let server = home.serve(&[&flags[..], &["--sync", "always"]].concat());
    assert!(!server.run(&["status"]).contains("sync="), "a flag wins over the file");
}

#[test]
fn a_named_file_with_a_typo_or_none_at_all_is_told() {
    let home = Home::new();
    let named = config(&home, "elsewhere.toml", "default_bucket = \"one\"\n");
    let absent = home.path("absent.toml");
    for (path, complaint) in [
        (&named, "elsewhere.toml: there is no key `default_bucket`; did you mean `default_buckets`?"),
        (&absent, "absent.toml"),
    ] {
        let output = home.serve_to_the_end(&["--config", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", path.display());
        let error = text(&output.stderr);
        assert!(error.contains(complaint), "{error}");
    }
    assert!(!home.data().exists(), "nothing is made of settings that are wrong");
}

#[test]
fn a_region_is_told_and_signatures_must_name_it() {
    let home = Home::new();
    let server = home.serve(&["--region", "mars-1"]);
    let error = server.fail(&["bucket", "make", "photos"]);
    assert!(error.contains("AuthorizationHeaderMalformed") && error.contains("mars-1"), "{error}");
    server.run(&["bucket", "make", "photos", "--region", "mars-1"]);
    let again = server.fail(&["bucket", "make", "photos", "--region", "mars-1"]);
    assert!(again.contains("BucketAlreadyOwnedByYou"), "{again}");
    assert_eq!(region_of(&server, "photos"), "mars-1");
}

/// What a server with these flags writes to its log from its start to its end.
fn log_of(flags: &[&str]) -> String {
    let home = Home::new();
    home.serve(flags).stop();
    std::fs::read_to_string(home.path("server.log")).unwrap()
}

#[test]
fn the_log_says_as_much_as_it_is_asked_for() {
    let log = log_of(&[]);
    assert!(log.lines().any(|line| line.contains(" INFO ") && line.ends_with("stopped")), "{log}");
    assert!(!log.contains("DEBUG"), "{log}");
    let log = log_of(&["--log", "error"]);
    assert_eq!(log, "", "a start and a stop are no errors");
    let log = log_of(&["--log", "error,trilith=info"]);
    assert!(log.lines().all(|line| line.contains(" INFO trilith::")) && log.contains("stopped"), "{log}");
}

#[test]
fn a_json_log_is_an_object_a_line() {
    let log = log_of(&["--log-format", "json"]);
    let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let last = lines.last().expect("something is logged");
    assert_eq!(last["fields"]["message"], "stopped");
    assert_eq!((&last["level"], &last["target"]), (&"INFO".into(), &"trilith::serve::member".into()));
    assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{log}");
}

#[test]
fn a_log_setting_that_is_not_understood_is_told() {
    let home = Home::new();
    for (flags, expected) in [
        (["--log", "logstore=loud"], "log = `logstore=loud`"),
        (["--log-format", "xml"], "log_format is `text` or `json`, not `xml`"),
    ] {
        let output = home.serve_to_the_end(&flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}
