//! What starts remember: with the newest writes on a device that is missing, nothing old is served, until a person gives it up.

use crate::http::Connection;
use crate::server::{Home, Server, program, text};
use std::path::Path;
use std::process::Output;

fn put(server: &Server, path: &str, content: &str) {
    let mut s3 = Connection::open(&server.s3).unwrap();
    assert_eq!(s3.ask("PUT", path, &[], content.as_bytes()).unwrap().status, 200, "{path}");
}

fn get(server: &Server, path: &str) -> (u16, String) {
    let answer = Connection::open(&server.s3).unwrap().get(path).unwrap();
    (answer.status, answer.text())
}

/// Two devices, 0 and 1, of which 1 alone has the newest version.
struct Split {
    home: Home,
    one: String,
    two: String,
}

impl Split {
    fn make(end: fn(Server)) -> Split {
        let home = Home::new();
        let path = |name| home.path(name).to_str().unwrap().to_owned();
        let (one, two) = (path("one"), path("two"));
        let both = format!("{one},{two}");
        let server = home.serve(&["--devices", &both]);
        server.make_open_bucket("bucket");
        put(&server, "/bucket/key", "old");
        server.stop();
        let server = home.serve(&["--devices", &two]);
        put(&server, "/bucket/key", "new");
        end(server);
        Split { home, one, two }
    }

    fn serve_one(&self) -> Server {
        self.home.serve(&["--devices", &self.one])
    }

    fn forget(&self, more: &[&str]) -> Output {
        let mut command = program();
        command.args(["device", "forget", "1", "--devices", &self.one, "--data"]).arg(self.home.data()).args(more);
        command.output().unwrap()
    }
}

#[test]
fn a_server_without_the_newest_version_answers_nothing_old() {
    for end in [Server::stop as fn(Server), Server::kill] {
        let split = Split::make(end);
        let server = split.serve_one();
        let (status, said) = get(&server, "/bucket/key");
        assert_eq!(status, 503, "{said}");
        assert!(said.to_lowercase().contains("unavailable until device 1 is back"), "{said}");
        assert_eq!(get(&server, "/bucket?list-type=2").0, 503);
        let output = server.command(&["status"]).output().unwrap();
        let told = text(&output.stdout);
        assert!(output.status.code() == Some(1) && told.contains("objects can't be answered"), "{told}");
        end(server);
        let server = split.home.serve(&["--devices", &format!("{},{}", split.one, split.two)]);
        assert_eq!(get(&server, "/bucket/key"), (200, "new".to_owned()));
    }
}

#[test]
fn a_device_that_is_forgotten_is_waited_for_no_longer() {
    for end in [Server::stop as fn(Server), Server::kill] {
        let split = Split::make(end);
        let here = text(&split.forget(&["--yes"]).stderr);
        assert!(here.contains("device 1 is here"), "{here}");
        std::fs::rename(&split.two, split.home.path("away")).unwrap();
        let server = split.serve_one();
        assert_eq!(get(&server, "/bucket/key").0, 503);
        let running = split.forget(&[]);
        assert!(!running.status.success() && text(&running.stderr).contains("--yes"), "{}", text(&running.stderr));
        server.stop();
        let asked = text(&split.forget(&[]).stderr);
        assert!(asked.contains("say --yes"), "{asked}");
        let forgotten = split.forget(&["--yes"]);
        assert!(forgotten.status.success(), "{}", text(&forgotten.stderr));
        let server = split.serve_one();
        assert_eq!(get(&server, "/bucket/key"), (200, "old".to_owned()));
        put(&server, "/bucket/key", "next");
        assert!(server.run(&["status"]).contains("All is well"));
        server.stop();
        assert_eq!(get(&split.serve_one(), "/bucket/key"), (200, "next".to_owned()));
        let back = split.home.path("away");
        // Also if it is tried again.
        for _ in 0..2 {
            refused_when_back(&split, &back);
        }
        let server = split.serve_one();
        assert_eq!(get(&server, "/bucket/key"), (200, "next".to_owned()));
        assert!(server.run(&["status"]).contains("All is well"), "nothing is left of it");
    }
}

/// A forgotten device that comes back is not taken: what it holds is not known any more.
fn refused_when_back(split: &Split, path: &Path) {
    let both = format!("{},{}", split.one, path.display());
    let output =
        split.home.serve_to_the_end(&["--root-user", "tester", "--root-password", "tester-secret", "--devices", &both]);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.contains("trilith device format --overwrite"), "{error}");
}
