use super::*;

const BLOCK_U64: u64 = BLOCK_BYTES;

async fn extent_with(partition: &MemoryPartition, data: &'static [u8]) -> ExtentId {
    partition.create(Bytes::from_static(data)).await.unwrap()
}

#[tokio::test]
async fn appends_go_to_the_end_and_may_be_sent_again() {
    let partition = MemoryPartition::new(1 << 20);
    let extent = extent_with(&partition, b"hello ").await;
    let world = Bytes::from_static(b"world");
    for _sending in 0..2 {
        partition.append(extent, 6, world.clone()).await.unwrap();
    }
    assert_eq!(partition.read(extent, 0, 11).await.unwrap(), "hello world");
    let refused = partition.append(extent, 6, Bytes::from_static(b"other")).await;
    assert_eq!(refused, Err(DataError::NotAtEnd { extent, offset: 6, len: 11 }));
    let refused = partition.append(extent, 12, world).await;
    assert_eq!(refused, Err(DataError::NotAtEnd { extent, offset: 12, len: 11 }));
    let beyond = partition.read(extent, 6, 6).await;
    assert_eq!(beyond, Err(DataError::Beyond { extent, end: 12, len: 11 }));
}

#[tokio::test]
async fn what_was_given_back_is_an_error_and_room_again() {
    let partition = MemoryPartition::new(4 * BLOCK_U64);
    let extent = extent_with(&partition, &[7; 4 * BLOCK]).await;
    let refused = partition.append(extent, 4 * BLOCK_U64, Bytes::from_static(b"x")).await;
    assert_eq!(refused, Err(DataError::Full));
    partition.punch(extent, 100, 2 * BLOCK_U64).await.unwrap();
    assert_eq!(partition.room().free_bytes, BLOCK_U64, "the one whole block of the range");
    let read = partition.read(extent, BLOCK_U64, 10).await;
    assert_eq!(read, Err(DataError::Punched { extent, offset: BLOCK_U64 }));
    assert_eq!(partition.read(extent, 0, BLOCK).await.unwrap(), [7; BLOCK].as_slice());
    partition.remove(extent).await.unwrap();
    partition.remove(extent).await.unwrap();
    assert_eq!(partition.room(), DataRoom { total_bytes: 4 * BLOCK_U64, free_bytes: 4 * BLOCK_U64 });
}
