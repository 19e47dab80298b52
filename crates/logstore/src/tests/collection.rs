use super::support::{Rig, attributes, key};
use bytes::Bytes;
use engine::{Condition, Content, ObjectEngine};
use smallvec::smallvec;

#[tokio::test]
async fn overwriting_for_ever_fits_a_small_device() {
    let mut rig = Rig::new(9, 1, 24, 512 * 1024).await;
    rig.config.checkpoint_entries = 200;
    let store = rig.open().await;
    let mut expected = Vec::new();
    for round in 0..6000u32 {
        let index = (round * 7919) % 300;
        let content = vec![(round % 251) as u8; 4096];
        let name = format!("key-{index}");
        let payload = smallvec![Bytes::copy_from_slice(&content)];
        let mut tries = 0;
        while let Err(error) = store.put(&key(&name), attributes(&content), payload.clone(), Condition::None).await {
            assert!(matches!(error, engine::EngineError::Full), "{error}");
            tries += 1;
            assert!(tries < 200, "collection frees nothing");
            rig.env.sleep(std::time::Duration::from_millis(50)).await;
        }
        expected.push((name, content));
        if round % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let newest: std::collections::HashMap<_, _> = expected.into_iter().collect();
    for restart in 0..2 {
        let store = match restart {
            0 => store.clone(),
            _ => {
                // One gateway at a time: a checkpoint of the first would come between.
                store.close().await;
                rig.open().await
            }
        };
        for (name, content) in &newest {
            let found = store.open(&key(name)).await.unwrap();
            let Content::Whole(bytes) = found.content else { panic!("small objects are whole") };
            assert_eq!(bytes, content[..], "{name}");
        }
    }
    assert!(store.stats().collected_zones.get() > 10);
}
