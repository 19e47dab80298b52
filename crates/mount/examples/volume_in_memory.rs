//! Mounts a volume in memory until it is unmounted, for suites of foreign tests: `volume_in_memory POINT [GIB] [TREES]`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use filesystem::client::Client;
use filesystem::data::Extents;
use filesystem::data::memory::MemoryPartition;
use filesystem::ids::TreeIndex;
use filesystem::meta::local::LocalTrees;
use filesystem::meta::{Command, Envelope, Found, FreedPiece, MetaSession, MetaTrees, Query, Time};
use mount::ServeOptions;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let point = arguments.next().expect("the folder to mount on");
    let gib: u64 = arguments.next().map_or(4, |gib| gib.parse().expect("a number of GiB"));
    let trees = arguments.next().map_or(1, |trees| trees.parse().expect("a number of trees"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (meta, data) = (Arc::new(LocalTrees::new(trees)), Arc::new(MemoryPartition::new(gib << 30)));
    for tree in (0..trees).map(TreeIndex) {
        runtime.spawn(sweep(meta.clone(), tree, data.clone()));
    }
    let client = runtime.block_on(Client::connect(meta, data, Env::real())).expect("a session");
    let options = ServeOptions { allow_other: true, nosuid: false, nodev: false, ..ServeOptions::default() };
    let served = mount::serve(client, Path::new(&point), &options, runtime.handle().clone(), None).expect("a mount");
    println!("{} is mounted", served.point().display());
    println!("{:?}", served.wait());
}

/// Gives what a tree has freed back.
async fn sweep(meta: Arc<LocalTrees>, tree: TreeIndex, data: Arc<MemoryPartition>) {
    let env = Env::real();
    loop {
        let query = Query::Freed { partition: 0, after: 0, most: 1000 };
        let Ok(Ok(Found::Freed(freed))) = meta.query_at(tree, query).await else { panic!("no answer") };
        for piece in &freed {
            let given_back = match piece.what {
                FreedPiece::Extent(extent) => data.remove(extent).await,
                FreedPiece::Range { extent, offset, len } => data.punch(extent, offset, len).await,
            };
            given_back.expect("memory can be given back");
        }
        if let Some(last) = freed.last() {
            let (session, now) = (MetaSession::LEADER, Time::default());
            let command = Command::ConfirmFreed { partition: 0, up_to: last.number };
            let envelope = Envelope { session, sequence: 0, answered_below: 0, now, locks_lost: 0, command };
            meta.command_at(tree, envelope).await.expect("it answers").expect("it is carried out");
        }
        env.sleep(Duration::from_millis(20)).await;
    }
}
