//! What every engine must do, as tests that an engine's own test suite runs against itself.
//!
//! Each test gets an engine of its own, empty, and panics at the first wrong answer. Random tests print the seed that replays
//! them; [`SEED_VARIABLE`] sets it, [`SOAK_VARIABLE`] multiplies their counts.
//!
//! ```text
//! #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
//! async fn conforms() {
//!     engine::conformance::run_all(async || Arc::new(new_engine().await)).await;
//! }
//! ```

mod conditions;
mod listing;
mod model;
mod model_outcome;
mod multipart;
mod objects;
mod random;
mod restart;
mod support;
mod tags;
mod uploads_listing;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::traits::ObjectEngine;

/// Set to a number, random tests use it as their only seed.
pub const SEED_VARIABLE: &str = "TRILITH_SEED";

/// Set to a number, random tests run that many times as long.
pub const SOAK_VARIABLE: &str = "TRILITH_SOAK";

/// The engine under test.
pub type Engine = Arc<dyn ObjectEngine>;

/// A test: panics when the engine is wrong.
type Test = fn(Engine) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($module:ident::$name:ident,)*) => {
        &[$((concat!(stringify!($module), "::", stringify!($name)), |engine| Box::pin($module::$name(engine))),)*]
    };
}

const TESTS: &[(&str, Test)] = tests![
    objects::put_get_head_delete,
    objects::sizes_around_every_boundary,
    objects::payload_in_pieces,
    objects::overwrites_in_both_directions_of_size,
    objects::too_much_for_a_small_object,
    objects::ranges_of_a_large_object,
    objects::a_reader_outlives_its_object,
    objects::staged_chunks_without_commit_are_no_object,
    objects::odd_keys,
    objects::buckets_are_apart,
    objects::attributes_come_back,
    objects::orders_grow,
    tags::leave_the_rest,
    tags::leave_the_parts,
    tags::never_bring_content_back,
    conditions::absent,
    conditions::matching,
    conditions::none_matching,
    conditions::of_large_objects,
    conditions::of_deletes,
    conditions::one_of_many_creators_wins,
    conditions::no_increment_is_lost,
    conditions::swaps_replace_what_they_matched,
    conditions::one_of_many_deleters_wins,
    conditions::readers_never_go_back,
    listing::empty_bucket,
    listing::names_in_byte_order,
    listing::prefixes_and_delimiters,
    listing::start_after_skips_rolled_up_prefixes,
    listing::pages_join_to_the_whole,
    listing::agrees_with_reads,
    listing::list_after_write_and_delete,
    listing::long_delimiters_and_odd_prefixes,
    listing::emptiness,
    listing::random_names,
    multipart::whole_life,
    multipart::parts_replaced_and_out_of_order,
    multipart::stale_or_unknown_parts,
    multipart::abort_ends_an_upload,
    multipart::retried_complete_answers_the_first_outcome,
    multipart::retried_complete_never_republishes,
    multipart::conditional_complete,
    multipart::parts_of_the_completed_object,
    multipart::one_part_only,
    multipart::racing_completes_agree,
    multipart::complete_or_abort_not_both,
    multipart::listed_in_the_order_of_creation,
    uploads_listing::pages_and_prefixes,
    uploads_listing::many_uploads_of_one_key,
    model::random_operations,
];

/// The test that only engines with monotonic reads pass, whichever of their doors a reader uses.
const OF_MONOTONIC_READS: &str = "conditions::readers_never_go_back";

/// [`run_all`], for an engine that promises read-after-write and no more: until a write is acknowledged, a reader may see it and then
/// the version before.
pub async fn run_all_but_monotonic_reads<E, F>(factory: F)
where
    E: ObjectEngine,
    F: AsyncFn() -> Arc<E>,
{
    assert!(TESTS.iter().any(|(name, _)| *name == OF_MONOTONIC_READS), "the test has another name now");
    for (name, test) in TESTS.iter().filter(|(name, _)| *name != OF_MONOTONIC_READS) {
        eprintln!("conformance: {name}");
        test(factory().await).await;
    }
    eprintln!("conformance: conditions::readers_see_what_was_acknowledged");
    conditions::readers_see_what_was_acknowledged(factory().await).await;
}

/// Runs every test, each on an engine that `factory` makes for it.
pub async fn run_all<E, F>(factory: F)
where
    E: ObjectEngine,
    F: AsyncFn() -> Arc<E>,
{
    for (name, test) in TESTS {
        eprintln!("conformance: {name}");
        test(factory().await).await;
    }
}

/// Runs the tests of what a restart must keep. `restart` gets the only reference to the engine; it ends it in whatever way its
/// test is about, and starts it anew on the same state.
pub async fn run_restarts<E, F, R>(factory: F, restart: R)
where
    E: ObjectEngine,
    F: AsyncFn() -> Arc<E>,
    R: AsyncFn(Arc<E>) -> Arc<E>,
{
    eprintln!("conformance: restart::keeps_what_was_acknowledged");
    restart::keeps_what_was_acknowledged(factory().await, &restart).await;
    eprintln!("conformance: restart::random_operations");
    model::random_operations_with_restarts(&factory, &restart).await;
}

#[cfg(test)]
mod tests;
