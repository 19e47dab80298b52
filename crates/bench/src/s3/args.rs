//! The options of `bench s3`.

use std::time::Duration;

use super::mix::{Mix, MixError, Sizes};
use super::request::Auth;
use super::source::Distribution;

/// Load on an S3 endpoint over HTTP/1.1.
#[derive(Debug, Clone, clap::Args)]
pub struct S3Args {
    /// Endpoint, as http://HOST:PORT or HOST:PORT.
    #[arg(long, default_value = "http://127.0.0.1:9000")]
    pub endpoint: String,

    /// Bucket, addressed by path. It must exist, unless --create-bucket is given.
    #[arg(long, default_value = "bench")]
    pub bucket: String,

    /// Create the bucket first; one that exists already is fine.
    #[arg(long)]
    pub create_bucket: bool,

    /// What every key starts with.
    #[arg(long, default_value = "bench/")]
    pub prefix: String,

    /// Operations with weights, such as get=70,put=30; of put, get, head, delete and list.
    #[arg(long, default_value = "get")]
    pub mix: Mix,

    /// Object sizes with weights, such as 4K or 4K=80,1M=20 (powers of 1,024). An object's size follows from its key.
    #[arg(long, default_value = "4K")]
    pub size: Sizes,

    /// Keys that are prepared, read and overwritten, and as many more to delete if the mix deletes.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,

    /// How keys are chosen: uniform, sequential, zipf (theta 0.99) or zipf:THETA.
    #[arg(long, default_value = "uniform")]
    pub distribution: Distribution,

    /// Every PUT writes a key that no other request of any run has written.
    #[arg(long)]
    pub unique: bool,

    /// Connections in all.
    #[arg(long, short = 'c', default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub connections: u32,

    /// Threads of the generator; one is enough for most servers on the same machine.
    #[arg(long, short = 't', default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,

    /// Measured time, such as 10, 10s, 500ms or 2m. A mix of deletes alone ends earlier when it runs out of keys.
    #[arg(long, short = 'd', default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,

    /// Time of load before measuring.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub warm_up: Duration,

    /// Open loop: send this many requests per second whatever the server does, and count latency from the time at which
    /// each should have been sent. Without it each connection sends as soon as it has its answer.
    #[arg(long)]
    pub rate: Option<f64>,

    /// Open loop with exponential gaps instead of equal ones.
    #[arg(long, requires = "rate")]
    pub poisson: bool,

    /// How requests are signed.
    #[arg(long, value_enum, default_value = "anonymous")]
    pub auth: Auth,

    /// Access key, for signed requests.
    #[arg(long, env = "AWS_ACCESS_KEY_ID")]
    pub access_key: Option<String>,

    /// Secret key, for signed requests.
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    pub secret_key: Option<String>,

    /// Region that signatures name.
    #[arg(long, default_value = "us-east-1")]
    pub region: String,

    /// Write all keys before the load.
    #[arg(long)]
    pub prepare: bool,

    /// Write all keys and stop.
    #[arg(long)]
    pub prepare_only: bool,

    /// Delete the prepared keys afterwards.
    #[arg(long)]
    pub clean_up: bool,

    /// Check bodies byte for byte, and lengths of HEAD answers.
    #[arg(long)]
    pub verify: bool,

    /// Names per page of a listing.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub page_size: u32,

    /// Statuses outside 2xx that count as success, such as 404,412.
    #[arg(long, value_delimiter = ',')]
    pub expect: Vec<u16>,

    /// Time limit of one request.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Seed of all choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Print the report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Reads `10`, `10s`, `500ms`, `2m`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration such as 10s, 500ms or 2m");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| bad())?;
    let unit = match &text[digits..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    Duration::try_from_secs_f64(number * unit).map_err(|_| bad())
}

impl From<MixError> for String {
    fn from(error: MixError) -> Self {
        error.to_string()
    }
}
