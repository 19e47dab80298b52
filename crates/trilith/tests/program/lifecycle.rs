//! Starting, stopping, starting again.

use crate::http::Connection;
use crate::server::{Home, LOOK, PATIENCE, text};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

#[test]
fn a_second_server_on_the_same_data_names_the_first() {
    let home = Home::new();
    let server = home.serve(&[]);
    let env = env::Env::real_with_cores(1);
    let begun = env.now();
    let output = home.serve_to_the_end(&[]);
    let taken = env.now() - begun;
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains(&format!("in use by process {}", server.pid())), "{error}");
    assert!(error.contains("consensus/base") || error.contains("device-0.trilith"), "{error}");
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&taken), "it waited {taken:?}, not about 5 s");
    server.make_open_bucket("still-served");
}

#[test]
fn a_successor_takes_over_when_its_predecessor_ends() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.make_open_bucket("bucket");
    std::thread::scope(|scope| {
        let successor = scope.spawn(|| home.serve(&[]));
        server.kill();
        let successor = successor.join().unwrap();
        assert!(successor.run(&["bucket", "ls"]).contains("bucket"));
    });
}

#[test]
fn sigterm_finishes_the_request_in_hand() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.make_open_bucket("bucket");
    let body = vec![7; 100_000];
    let mut slow = Connection::open(&server.s3).unwrap();
    slow.send_head("PUT", "/bucket/slow", &[("Expect", "100-continue")], body.len()).unwrap();
    assert_eq!(slow.answer(false).unwrap().status, 100, "the server wants the body: the request is in its hand");
    slow.send(&body[..40_000]).unwrap();
    server.terminate();
    wait_until_not_ready(&server.admin);
    slow.send(&body[40_000..]).unwrap();
    assert_eq!(slow.answer(false).unwrap().status, 200);
    let status = server.ended();
    assert_eq!(status.code(), Some(0));
    let server = home.serve(&[]);
    let answer = Connection::open(&server.s3).unwrap().get("/bucket/slow").unwrap();
    assert!(answer.status == 200 && answer.body == body);
}

/// Returns when the server has begun to stop: it says so, or its admin port is gone.
fn wait_until_not_ready(admin: &str) {
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    while Connection::open(admin)
        .and_then(|mut connection| connection.get("/health/ready"))
        .is_ok_and(|answer| answer.status == 200)
    {
        assert!(env.now() < deadline, "the server stays ready after SIGTERM");
        std::thread::sleep(LOOK);
    }
}

/// Here it waits for a predecessor; it may as well read whole disks.
#[test]
fn a_start_ends_when_it_is_told_to() {
    let home = Home::new();
    let server = home.serve(&[]);
    for signal in [Signal::TERM, Signal::INT] {
        let start = home.spawn(&[]);
        let pid = Pid::from_child(&start);
        await_handler(pid, signal);
        kill_process(pid, signal).unwrap();
        let output = start.wait_with_output().unwrap();
        assert!(output.status.success(), "{signal:?}: {} {}", output.status, text(&output.stderr));
    }
    server.make_open_bucket("still-served");
}

/// Waits until a process has something to do when a signal comes.
fn await_handler(pid: Pid, signal: Signal) {
    let env = env::Env::real_with_cores(1);
    let deadline = env.now() + PATIENCE;
    let handled = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(mask, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    };
    while !handled() {
        assert!(env.now() < deadline, "{signal:?} is nobody's");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn a_server_that_is_refused_leaves_the_number_of_the_first() {
    let home = Home::new();
    let [one, two] = ["one", "two"].map(|name| home.path(name));
    let server = home.serve(&["--devices", one.to_str().unwrap()]);
    let output = home.serve_to_the_end(&["--devices", two.to_str().unwrap()]);
    assert!(output.status.code() == Some(1) && !two.exists(), "{}", text(&output.stderr));
    let number = std::fs::read_to_string(home.data().join("trilith.pid")).unwrap();
    assert_eq!(number, format!("{}\n", server.pid()));
}

#[test]
fn a_server_serves_though_its_number_can_not_be_written_down() {
    let home = Home::new();
    std::fs::create_dir(home.data()).unwrap();
    std::os::unix::fs::symlink("/no/such/folder", home.data().join("trilith.pid")).unwrap();
    home.serve(&[]).stop();
}

#[test]
fn a_restart_keeps_objects_buckets_and_policies() {
    let home = Home::new();
    let server = home.serve(&[]);
    server.make_open_bucket("bucket");
    let mut s3 = Connection::open(&server.s3).unwrap();
    let small = |index: usize| format!("content of {index}").into_bytes();
    for index in 0..300 {
        assert_eq!(s3.ask("PUT", &format!("/bucket/small-{index:03}"), &[], &small(index)).unwrap().status, 200);
    }
    let large: Vec<u8> = (0..9_000_000u32).map(|at| (at / 7) as u8).collect();
    assert_eq!(s3.ask("PUT", "/bucket/large", &[("x-amz-meta-colour", "green")], &large).unwrap().status, 200);
    assert_eq!(s3.ask("DELETE", "/bucket/small-007", &[], b"").unwrap().status, 204);
    server.stop();
    for round in 0..2 {
        let server = home.serve(&[]);
        let mut s3 = Connection::open(&server.s3).unwrap();
        for index in 0..300 {
            let answer = s3.get(&format!("/bucket/small-{index:03}")).unwrap();
            let expected = if index == 7 { 404 } else { 200 };
            assert_eq!(answer.status, expected, "round {round}, object {index}");
            assert!(index == 7 || answer.body == small(index), "round {round}, object {index}");
        }
        let answer = s3.get("/bucket/large").unwrap();
        assert!(answer.body == large, "round {round}");
        assert_eq!(answer.header("x-amz-meta-colour"), Some("green"));
        assert_eq!(server.run(&["object", "ls", "-r", "bucket"]).lines().count(), 300);
        server.stop();
    }
}

/// Found by a benchmark on a disk that filled up: every node of a cluster aborted in the middle of its log's last line.
#[test]
fn a_log_on_a_full_disk_ends_no_server() {
    let home = Home::new();
    let server = home.serve_with_full_log(&["--log", "debug"]);
    server.make_open_bucket("bucket");
    assert!(server.run(&["bucket", "ls"]).contains("bucket"));
}

#[test]
fn a_server_serves_though_nobody_can_be_told_where() {
    let home = Home::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = crate::server::program();
    command.args(["serve", "--device-size", "1GiB", "--admin-addr", "127.0.0.1:0", "--s3-addr", &port.to_string(), "--data"]);
    let mut child = command.arg(home.data()).stdout(full).stderr(std::process::Stdio::null()).spawn().unwrap();
    let env = env::Env::real_with_cores(1);
    let until = env.now() + PATIENCE;
    while std::net::TcpStream::connect(port).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        assert!(env.now() < until, "it does not serve");
        std::thread::sleep(LOOK);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Its state takes nothing more until it is opened anew. It served on, and deletes gave no space back.
#[test]
fn a_server_whose_manager_has_failed_ends() {
    let home = Home::new();
    let server = home.serve_limited();
    server.limit_files(64 << 10);
    let make = |name: &str| server.command(&["bucket", "make", name]).output().unwrap().status.success();
    let made: Vec<String> = (0..100).map(|number| format!("bucket-{number}")).take_while(|name| make(name)).collect();
    assert!(made.len() < 100, "nothing has failed");
    assert_eq!(server.ended().code(), Some(1), "{}", home.log());
    assert!(home.log().contains("this node's part of the manager has stopped, and the node ends with it"), "{}", home.log());
    let listed = home.serve(&[]).run(&["bucket", "ls"]);
    assert!(made.iter().all(|name| listed.contains(name)), "{made:?}: {listed}");
}
