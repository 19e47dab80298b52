//! Ports that are taken: a start says by which process.

use crate::cluster::fixture::own_address;
use crate::server::{Home, program, text};
use std::net::TcpListener;

fn this_process() -> String {
    format!("process {} (", std::process::id())
}

#[test]
fn a_server_says_which_process_has_its_ports() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for setting in ["s3_addr", "admin_addr"] {
        let flag = format!("--{}", setting.replace('_', "-"));
        let output = home.serve_to_the_end(&[&flag, &address]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains(&address) && said.contains(&this_process()) && said.contains(setting), "{said}");
    }
}

/// Caught: nodes that ended with a word in their logs.
#[test]
fn a_cluster_to_try_says_which_process_has_its_ports() {
    let home = Home::new();
    let (data, first) = (home.path("dev"), own_address());
    let octets: Vec<u8> = first.split('.').map(|octet| octet.parse().unwrap()).collect();
    let second = format!("{}.{}.{}.{}", octets[0], octets[1], octets[2], octets[3] + 1);
    for port in [9000, 9001, 9002] {
        let taken = TcpListener::bind(format!("{second}:{port}")).unwrap();
        let mut dev = program();
        dev.args(["cluster", "dev", "--nodes", "2", "--device-size", "1GiB", "--first-addr", &first, "--data"]).arg(&data);
        let output = dev.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains(&format!("{second}:{port}")) && said.contains(&this_process()) && said.contains("node 2"),
            "{said}"
        );
        assert!(!data.join("node-1").exists(), "nothing was begun");
        drop(taken);
    }
}
