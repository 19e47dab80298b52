//! The bare server.

use std::io;

use bench::ceiling::Ceiling;
use bench::s3::execute;

use crate::options;

#[test]
fn it_answers_the_generator() {
    let server = Ceiling::start("127.0.0.1:0".parse().unwrap(), 4096, 2).unwrap();
    let line = "--mix put=1,get=2,head=1,delete=1 --keys 100000 --size 64K -c 8 -d 200ms";
    let report = execute(&options(server.address(), line)).unwrap();
    assert_eq!(report.total.errors, 0, "{report}");
    let get = &report.ops["get"];
    assert!((get.mb_per_s * report.measured_s - get.requests as f64 * 4096.0 / 1e6).abs() < 0.01, "{report}");
    server.stop().unwrap();
}

#[test]
fn a_second_server_on_the_port_is_noticed() {
    let server = Ceiling::start("127.0.0.1:0".parse().unwrap(), 16, 2).unwrap();
    let error = Ceiling::start(server.address(), 16, 2).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    server.stop().unwrap();
}
