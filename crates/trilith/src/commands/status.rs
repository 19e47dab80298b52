//! `trilith status`: what a server says of itself, and what is wrong.

use super::size::{duration, human};
use super::{table, verdict};
use crate::client::{Content, Http};
use admin::{Severity, Status};
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::tell;
use clap::Args;
use hyper::Request;
use std::process::ExitCode;

/// Most bytes of a status: some hundred a device.
const MAX_STATUS_BYTES: usize = 16 << 20;

/// Print what a server says of itself, and what to do about what is wrong
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The exit code is 0 if all is well, and 1 if something is wrong or the server can't be reached.\n\nExamples:\n  \
                        trilith status\n  trilith status --admin 127.0.0.2:9001\n  trilith status --json | jq .devices"
)]
pub struct StatusArgs {
    /// Where the admin port listens
    #[arg(long, env = "TRILITH_ADMIN_ADDR", default_value = "127.0.0.1:9001")]
    admin: String,
    /// Print the server's JSON as it is
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let text = super::run(fetch(&args.admin))?;
    let status: Status =
        serde_json::from_str(&text).context("the admin port gave a status that this version does not understand")?;
    if args.json {
        tell!("{text}")?;
    } else {
        print(&status)?;
    }
    Ok(verdict(status.warnings.iter().all(|warning| warning.severity != Severity::Error)))
}

pub async fn fetch(address: &str) -> anyhow::Result<String> {
    let http = Http::new(address)?;
    let request = Request::get("/status").header("host", http.authority()).body(Content::Empty.body())?;
    let mut answer = http.send(request).await?;
    if !answer.status().is_success() {
        bail!("{address} is no admin port: it answered {}", answer.status());
    }
    answer.text(MAX_STATUS_BYTES).await
}

fn print(status: &Status) -> Printed {
    let unknown = || "-".to_owned();
    tell!("Trilith {}", status.version)?;
    tell!("  cluster  {}", status.cluster.clone().unwrap_or_else(unknown))?;
    tell!("  S3       {}", status.s3_address.as_ref().map_or_else(unknown, |address| format!("http://{address}")))?;
    tell!("  state    {}, up {}", if status.ready { "ready" } else { "not ready" }, duration(status.uptime_ms))?;
    tell!("  buckets  {}", status.buckets)?;
    tell!("  copies   {} of each object", status.copies)?;
    let uploads = &status.uploads;
    tell!(
        "  uploads  {} of {} of memory in use, {} wait, {} refused",
        human(uploads.memory_used_bytes),
        human(uploads.memory_limit_bytes),
        uploads.waiting,
        uploads.refused
    )?;
    if let Some(engine) = &status.engine {
        tell!(
            "  index    {} keys in {}, {} names since the last checkpoint",
            engine.keys,
            human(engine.index_bytes),
            engine.unsaved_names
        )?;
        if engine.damaged_copies + engine.healed_copies + engine.suspect_copies > 0 {
            tell!(
                "  damage   {} damaged copies found here, {} made again, {} wait",
                engine.damaged_copies,
                engine.healed_copies,
                engine.suspect_copies
            )?;
        }
    }
    for line in &status.subsystems {
        tell!("  {:<8} {}", line.label, line.text)?;
    }
    tell!("")?;
    let rows: Vec<[String; 7]> = status
        .devices
        .iter()
        .map(|device| {
            let (capacity, used, free) = (human(device.capacity_bytes), human(device.used_bytes), human(device.free_bytes));
            let chunks = human(device.owned.iter().map(|owned| owned.bytes).sum());
            [device.device.to_string(), device.state.clone(), capacity, used, chunks, free, device.path.clone()]
        })
        .collect();
    table::print(["device", "state", "capacity", "objects", "chunks", "free", "path"], &rows)?;
    for warning in &status.warnings {
        let mark = match warning.severity {
            Severity::Error => "WRONG",
            Severity::Notice => "note",
        };
        tell!("\n{mark}: {}\n  {}", warning.what, warning.advice)?;
    }
    if status.warnings.is_empty() {
        tell!("\nAll is well.")?;
    }
    Ok(())
}
