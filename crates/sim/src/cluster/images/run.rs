//! One run: a seed, and what came of it.

use super::super::chunks::run::remove_gone;
use super::super::run::{Failure, Report, name_of};
use super::super::scenario::Strike;
use super::super::strike::Chaos;
use super::super::world::World;
use super::client::ImageUser;
use super::end::{await_all_whole, look_at_all};
use super::history::ImageHistories;
use super::pattern::BLOCK_BYTES;
use super::person::{Person, ask, serve};
use super::{LOSSES, SIZES, scenario_of};
use crate::draw::Draw;
use crate::trace::Trace;
use block::protocol::Ask;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Streams of draws.
const CHAOS_STREAM: u64 = 1;
const IMAGES_STREAM: u64 = 2;
const CLIENT_STREAMS: u64 = 100;
const PERSON_STREAMS: u64 = 200;
/// Images that a run begins with, and people.
const IMAGES: usize = 2;
const PEOPLE: u64 = 2;
/// What was under way at the last fault has ended after this time.
const CALM_AT_THE_END: Duration = Duration::from_secs(5);

/// Runs a seed, within a runtime whose clock is paused.
pub async fn run(seed: u64, trace: Trace) -> Result<Report, Failure> {
    let trace = Arc::new(trace);
    let outcome = within(seed, &trace).await;
    outcome.map_err(|what| Failure { what, events: trace.last() })
}

async fn within(seed: u64, trace: &Arc<Trace>) -> Result<Report, String> {
    env::keep_marks();
    let world = World::new(scenario_of(seed), seed, trace.clone()).await?;
    let histories = ImageHistories::new(&world.env, trace);
    make_images(&world, &histories, seed).await?;
    let outcome = live(&world, &histories, seed).await;
    let marks = env::take_marks();
    // A history without an explanation says more than what came of it.
    if histories.violation().is_some() || outcome.is_ok() {
        histories.judge()?;
    }
    outcome?;
    let mut counts = histories.counts();
    counts.extend(marks.into_iter().filter(|(what, _)| what.starts_with("images: ")));
    for (what, count) in world.counts.lock().iter().filter(|(what, _)| what.starts_with("fault: ")) {
        counts.insert(what, *count);
    }
    Ok(Report { fingerprint: trace.fingerprint(), calls: histories.calls(), counts })
}

async fn make_images(world: &Arc<World>, histories: &ImageHistories, seed: u64) -> Result<(), String> {
    let mut draw = Draw::new(seed, IMAGES_STREAM);
    let least = if world.scenario.faults.name == LOSSES { 2 } else { 1 };
    for number in 0..IMAGES {
        let copies = least + draw.below(4 - u64::from(least)) as u8;
        let image = histories.add_image(copies, None);
        let size_bytes = u64::from(SIZES[draw.below(SIZES.len() as u64) as usize]) * BLOCK_BYTES as u64;
        let create = Ask::Create { name: image.name.clone(), size_bytes, copies: Some(copies), is_preallocated: false };
        ask(world, number, create).await?;
        histories.image_is_there(image.number);
        serve(world, number, &image.name).await?;
    }
    Ok(())
}

fn user(world: &Arc<World>, histories: &Arc<ImageHistories>, draw: Draw, is_over: &Arc<AtomicBool>) -> ImageUser {
    ImageUser { world: world.clone(), histories: histories.clone(), draw, is_over: is_over.clone() }
}

async fn live(world: &Arc<World>, histories: &Arc<ImageHistories>, seed: u64) -> Result<(), String> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut working = tokio::task::JoinSet::new();
    for number in 0..world.scenario.workload.clients {
        working.spawn(user(world, histories, Draw::new(seed, CLIENT_STREAMS + number), &is_over).run());
    }
    for number in 0..PEOPLE {
        let draw = Draw::new(seed, PERSON_STREAMS + 2 * number);
        let user = user(world, histories, Draw::new(seed, PERSON_STREAMS + 2 * number + 1), &is_over);
        working.spawn(Person { user, draw }.run());
    }
    let mut chaos = Chaos::new(world, Draw::new(seed, CHAOS_STREAM));
    for strike in chaos.choose() {
        let calm = chaos.draw.duration(world.scenario.faults.calm);
        world.env.sleep(calm).await;
        world.count(name_of(strike), 1);
        if takes_disks(strike) {
            // Nothing must be lost that a real cluster would not lose.
            await_all_whole(world, histories).await?;
        }
        chaos.strike(strike).await;
        if strike == Strike::Replace {
            remove_gone(world).await?;
        }
        if takes_disks(strike) {
            await_all_whole(world, histories).await?;
        }
        if let Some(broken) = world.broken.lock().clone() {
            return Err(broken);
        }
        if histories.violation().is_some() {
            return Ok(());
        }
    }
    world.network.set_weather(net::LinkWeather::default());
    world.settle().await?;
    world.env.sleep(CALM_AT_THE_END).await;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = working.join_next().await {
        ended.map_err(|error| error.to_string())?;
    }
    let mut user = user(world, histories, Draw::new(seed, CLIENT_STREAMS - 1), &is_over);
    look_at_all(&mut user, 0).await?;
    look_at_all(&mut user, 1).await?;
    chaos.strike(Strike::PowerCutOfAll).await;
    world.settle().await?;
    look_at_all(&mut user, 2).await.map_err(|what| format!("after the last start: {what}"))
}

fn takes_disks(strike: Strike) -> bool {
    matches!(strike, Strike::ReplaceDisks | Strike::Replace)
}
