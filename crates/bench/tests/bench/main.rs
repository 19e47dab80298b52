//! The generator against servers whose behaviour is known, faults included.

mod ceiling;
mod faults;
mod load;
mod store;

use bench::s3::S3Args;
use clap::Parser;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    s3: S3Args,
}

/// Options as a person would type them; short runs without warm-up unless said.
fn options(address: std::net::SocketAddr, line: &str) -> S3Args {
    let endpoint = format!("http://{address}");
    let fixed = ["bench", "--endpoint", &endpoint, "--warm-up", "0"];
    Options::try_parse_from(fixed.into_iter().chain(line.split_whitespace())).expect("the options are valid").s3
}
