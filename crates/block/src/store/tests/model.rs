//! Any requests in any order, with crashes between: the store does what the model does.

use model::choice::Seeded;
use proptest::prelude::*;
use types::{PIECE_BYTES, Token};

use super::ledger::{Act, BLOBS, Content, USED, after, choose, id_of, judge};
use super::support::{Rig, holder, new, overwrite};
use crate::stores::{Admission, BlobAt, Change, StoreError};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A valid request, that follows from the seed.
    Ask {
        blob: usize,
        seed: u64,
    },
    /// Content for a piece, whether it has some or not; or a part of a piece, as if it were new.
    Overwrite {
        blob: usize,
        piece: u32,
        is_filled: bool,
    },
    Enter {
        image: usize,
    },
    Return,
    /// The process ends, or the power goes as well.
    Restart {
        has_power: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..BLOBS, any::<u64>()).prop_map(|(blob, seed)| Step::Ask { blob, seed }),
        4 => (0..BLOBS, 0..USED, any::<bool>()).prop_map(|(blob, piece, is_filled)| Step::Overwrite { blob, piece, is_filled }),
        1 => (0..2_usize).prop_map(|image| Step::Enter { image }),
        1 => Just(Step::Return),
        2 => any::<bool>().prop_map(|has_power| Step::Restart { has_power }),
    ]
}

struct Run {
    rig: Rig,
    holders: [Admission; 2],
    blobs: Vec<Option<(u32, Content)>>,
}

impl Run {
    async fn ask(&mut self, blob: usize, act: Act) {
        let (one, id) = (self.holders[blob / 3], id_of(blob));
        let known = self.blobs[blob].take();
        let outcome = match (&known, &act) {
            (Some((block, _)), Act::Change(change)) => {
                let at = BlobAt { block: *block, id };
                self.rig.store.change(one, at, change.clone()).await.map(|()| *block)
            }
            (Some((block, _)), Act::Free) => self.rig.store.free(one, BlobAt { block: *block, id }).await.map(|()| *block),
            (None, Act::Change(change)) => self.rig.store.create(one, new(id), change.clone()).await,
            (None, Act::Free) => unreachable!("only what is there is freed"),
        };
        let before = known.as_ref().map(|(_, content)| content);
        let valid = is_valid(before, &act);
        assert_eq!(outcome.is_ok(), valid, "{act:?} of {before:?}: {outcome:?}");
        self.blobs[blob] = match outcome {
            Ok(block) => after(before, &act).map(|content| (block, content)),
            Err(error) => {
                assert!(matches!(error, StoreError::Invalid(_)), "{error}");
                known
            }
        };
    }

    async fn check(&self, step: Step) {
        let rows: Vec<_> = [3, 4].into_iter().flat_map(|image| self.rig.rows(image)).collect();
        assert_eq!(rows.len(), self.blobs.iter().flatten().count(), "after {step:?}");
        for (blob, known) in self.blobs.iter().enumerate() {
            let Some((block, content)) = known else { continue };
            let row = rows.iter().find(|row| row.at == BlobAt { block: *block, id: id_of(blob) });
            let row = row.unwrap_or_else(|| panic!("after {step:?}: {} is not in block {block}", id_of(blob)));
            assert_eq!((row.owned, row.data), (content.owned, content.data), "after {step:?}");
            let wrong = judge(&self.rig, row, &[content]).await;
            assert!(wrong.is_empty(), "after {step:?}: {wrong:#?}");
        }
    }
}

fn is_valid(before: Option<&Content>, act: &Act) -> bool {
    let Act::Change(Change { offset, content, filled, .. }) = act else { return true };
    let data = before.map_or(types::Pieces::NONE, |content| content.data);
    let range = *offset..offset + content.len() as u32;
    (data | *filled).covers(types::Pieces::touched(range.clone())) && types::Pieces::within(range).covers(*filled & !data)
}

async fn run(steps: Vec<Step>) {
    let rig = Rig::new(1).await;
    let mut run = Run { rig, holders: [holder(3, 1), holder(4, 1)], blobs: vec![None; BLOBS] };
    for one in run.holders {
        run.rig.enter(one).await;
    }
    for (version, step) in (1..).zip(steps) {
        match step {
            Step::Ask { blob, seed } => {
                let before = run.blobs[blob].as_ref().map(|(_, content)| content);
                let act = choose(&mut Seeded::new(seed), blob, before, version);
                run.ask(blob, act).await;
            }
            Step::Overwrite { blob, piece, is_filled } => {
                let mut change = overwrite(id_of(blob), piece * PIECE_BYTES, 8192, version);
                if is_filled {
                    change.filled = types::Pieces(1 << piece);
                }
                run.ask(blob, Act::Change(change)).await;
            }
            Step::Enter { image } => {
                let one = &mut run.holders[image];
                *one = Admission { token: Token(one.token.0 + 1), ..*one };
                run.rig.enter(*one).await;
            }
            Step::Return => run.rig.store.inner.return_vacant().await,
            Step::Restart { has_power } => {
                run.rig = if has_power { run.rig.restart().await } else { run.rig.crash().await };
                for one in run.holders {
                    run.rig.enter(one).await;
                }
            }
        }
        run.check(step).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map_of_pieces(steps in prop::collection::vec(step(), 1..50)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(run(steps));
    }
}
