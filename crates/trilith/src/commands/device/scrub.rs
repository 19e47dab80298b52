//! A scrub that is asked for: a running server reads its devices, and tells what it finds.

use super::ScrubArgs;
use crate::client::{Content, Http};
use crate::commands::size::human;
use crate::commands::table;
use crate::settings::ServeArgs;
use admin::{ScrubStatus, ScrubStep};
use anyhow::{Context, bail};
use bench::output::Printed;
use bench::{complain, tell};
use env::Env;
use hyper::{Method, Request, StatusCode};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often it is asked how far the scrub is.
const LOOK: Duration = Duration::from_millis(500);
/// Most bytes of an answer: some hundred a device.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// A line is printed each time so much more of a device is read.
const STEP_PERCENT: u64 = 10;

pub async fn run(args: &ScrubArgs) -> anyhow::Result<()> {
    let address = admin_address(args)?;
    let http = Http::new(&address)?;
    let query = args.device.map(|device| format!("?device={device}")).unwrap_or_default();
    let begun =
        ask(&http, Method::POST, &format!("/scrub{query}")).await.with_context(|| format!("the server at {address}"))?;
    if begun.is_empty() {
        bail!("the server at {address} has no devices");
    }
    if !args.wait {
        let devices: Vec<String> = begun.iter().map(|scrub| scrub.device.to_string()).collect();
        let bytes = begun.iter().map(|scrub| scrub.bytes).sum();
        tell!(
            "Device {} is being read, {} of it. Say it again with --wait to see how far it is.",
            devices.join(", "),
            human(bytes)
        )?;
        return Ok(());
    }
    let ended = wait(&http, begun).await?;
    print(&ended)?;
    judge(&ended)
}

fn admin_address(args: &ScrubArgs) -> anyhow::Result<String> {
    if let Some(address) = &args.admin {
        return Ok(address.clone());
    }
    let mut address = ServeArgs { data: args.data.clone(), ..ServeArgs::default() }.settle()?.admin_address;
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    Ok(address.to_string())
}

async fn ask(http: &Http, method: Method, path: &str) -> anyhow::Result<Vec<ScrubStatus>> {
    let request = Request::builder().method(method).uri(path).header("host", http.authority()).body(Content::Empty.body())?;
    let mut answer = http.send(request).await?;
    let status = answer.status();
    let text = answer.text(MAX_ANSWER_BYTES).await?;
    match status {
        StatusCode::OK | StatusCode::ACCEPTED => {
            serde_json::from_str(&text).context("this version does not understand its answer")
        }
        // An older server answers so too, without a word.
        StatusCode::NOT_FOUND if text.is_empty() => bail!("knows of no scrubs: its version is older, or it is no admin port"),
        _ => bail!("{text}"),
    }
}

/// Prints how far it is until all is read and healed.
async fn wait(http: &Http, begun: Vec<ScrubStatus>) -> anyhow::Result<Vec<ScrubStatus>> {
    let env = Env::real_with_cores(1);
    let wanted: Vec<u32> = begun.iter().map(|scrub| scrub.device).collect();
    let (mut scrubs, mut told) = (begun, BTreeMap::new());
    loop {
        for scrub in &scrubs {
            let step = (scrub.state, percent(scrub) / STEP_PERCENT);
            if told.insert(scrub.device, step) != Some(step) {
                complain!("{}", line(scrub));
            }
        }
        if scrubs.iter().all(ScrubStatus::is_over) {
            return Ok(scrubs);
        }
        env.sleep(LOOK).await;
        scrubs = ask(http, Method::GET, "/scrub").await.context("the server answers no more")?;
        scrubs.retain(|scrub| wanted.contains(&scrub.device));
        if scrubs.len() < wanted.len() {
            bail!("the server has begun anew meanwhile, and the scrub with it has ended: ask for another");
        }
    }
}

fn percent(scrub: &ScrubStatus) -> u64 {
    scrub.read_bytes.min(scrub.bytes) * 100 / scrub.bytes.max(1)
}

fn line(scrub: &ScrubStatus) -> String {
    let device = scrub.device;
    match scrub.state {
        ScrubStep::Reading => format!("device {device}: {}% of {} read", percent(scrub), human(scrub.bytes)),
        ScrubStep::Healing => {
            format!("device {device}: read; {} of {} damaged copies left", scrub.left_copies, scrub.damaged_copies)
        }
        ScrubStep::Done => format!("device {device}: done"),
        ScrubStep::Stopped => format!("device {device}: it takes no more writes, and is read no further"),
    }
}

fn print(scrubs: &[ScrubStatus]) -> Printed {
    let rows: Vec<[String; 6]> = scrubs
        .iter()
        .map(|scrub| {
            let healed = scrub.damaged_copies - scrub.left_copies.min(scrub.damaged_copies);
            let counts = [scrub.damaged_frames, scrub.damaged_copies, healed, scrub.left_copies].map(|count| count.to_string());
            let [frames, copies, healed, left] = counts;
            [scrub.device.to_string(), human(scrub.read_bytes), frames, copies, healed, left]
        })
        .collect();
    table::print(["device", "read", "damaged frames", "damaged copies", "made again", "left"], &rows)
}

/// An error if damage is left.
fn judge(scrubs: &[ScrubStatus]) -> anyhow::Result<()> {
    let left: u64 = scrubs.iter().map(|scrub| scrub.left_copies).sum();
    if let Some(stopped) = scrubs.iter().find(|scrub| scrub.state == ScrubStep::Stopped) {
        bail!("device {} takes no more writes and was not read to its end: the server's log says why", stopped.device);
    }
    if scrubs.iter().any(|scrub| scrub.list_unread) {
        bail!(
            "a large object's list of chunks could not be read, so more may be damaged than is told: scrub again, or stop the server and say trilith fsck"
        );
    }
    if left > 0 {
        bail!(
            "{left} damaged copies could not be made again: the others of the same objects are damaged too, or on devices that are away. Bring \
             those back and scrub again; `trilith fsck` on the stopped server tells whose they are"
        );
    }
    let (frames, copies) =
        scrubs.iter().fold((0, 0), |(frames, copies), scrub| (frames + scrub.damaged_frames, copies + scrub.damaged_copies));
    tell!(
        "\n{}",
        match (frames, copies) {
            (0, 0) => "All is well.",
            (_, 0) => "All is well: nothing needs the damaged frames, which a crash may have torn.",
            _ => "All is well again. If this disk gives damaged bytes again, replace it.",
        }
    )?;
    Ok(())
}

#[cfg(test)]
mod tests;
