use std::sync::Arc;

use super::MemoryEngine;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oracle_conforms() {
    crate::conformance::run_all(async || Arc::new(MemoryEngine::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oracle_keeps_what_it_was_given() {
    crate::conformance::run_restarts(async || Arc::new(MemoryEngine::new()), async |engine| engine).await;
}
