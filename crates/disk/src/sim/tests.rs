use env::Env;

use crate::{AlignedBuf, BLOCK_BYTES, DiskExt, Durability, ReadMode, SimDisk, SimOptions};

#[tokio::test]
async fn durable_writes_survive_a_crash() {
    let disk = SimDisk::new(&Env::simulated(1), SimOptions::default());
    let buf = AlignedBuf::copy_of(&[7; BLOCK_BYTES]);
    disk.write(0, buf, Durability::Durable).await.expect("write");
    let survivor = disk.crash();
    assert_eq!(survivor.read(0, BLOCK_BYTES, ReadMode::Direct).await.expect("read")[..], [7; BLOCK_BYTES]);
}
