use std::sync::Arc;

use types::{BucketId, UploadId};

use super::{Mutation, Record};
use crate::content::{Content, Extent, PartMark, Piece};
use crate::name::{Name, Opseq};

fn name() -> Name {
    Name::starting(BucketId(3), b"a")
}

fn content() -> Arc<Content> {
    let extents = [Extent { first: 7, count: 2 }].into();
    let piece = Piece { length: 5000, extents, sums: [0xdead_beef].into() };
    Arc::new(Content { pieces: [piece].into(), parts: None })
}

fn put() -> Record {
    let mutation = Mutation::Put { name: name(), attributes: [200, 1, 0, 8].into(), content: content() };
    Record { settled_below: Opseq(300), mutation }
}

#[test]
fn what_is_written_is_read() {
    let (name, upload) = (name(), UploadId([5; 16]));
    let parts = Some([PartMark { length: 5000, checksum: None }].into());
    let joined = Content { parts, ..(*content()).clone() };
    let mutations = [
        put().mutation,
        Mutation::Delete { name: name.clone() },
        Mutation::SetAttributes { name: name.clone(), base: Opseq(4), attributes: [].into() },
        Mutation::CreateUpload { name: name.clone(), upload, attributes: [].into() },
        Mutation::PutPart { name: name.clone(), upload, number: 9, attributes: [].into(), content: Arc::new(joined) },
        Mutation::Complete { name: name.clone(), upload, parts: vec![(9, Opseq(4))], attributes: [].into() },
        Mutation::Abort { name, upload },
        Mutation::Revoke { revoked: vec![Opseq(1), Opseq(9)] },
        Mutation::Mark,
    ];
    for mutation in mutations {
        let record = Record { settled_below: Opseq(u64::MAX), mutation };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).as_ref(), Ok(&record));
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Record::decode(&longer).is_err(), "bytes behind {record:?}");
        assert!(Record::decode(&bytes[..bytes.len() - 1]).is_err(), "a byte less of {record:?}");
    }
}

#[test]
fn the_bytes_of_a_put_stay() {
    let golden: &[u8] = &[
        0xac, 2, // settled below 300
        0, // put
        9, 0, 0, 0, 0, 0, 0, 0, 3, b'a', // nine bytes: bucket 3, key
        4, 200, 1, 0, 8, // attributes: a tag that this version does not know
        1, // pieces
        0x88, 0x27, // 5000 bytes
        1, 7, 2, // one extent: blocks 7 and 8
        1, 0xef, 0xfd, 0xb6, 0xf5, 0x0d, // one sum
        0,    // no parts
    ];
    assert_eq!(put().encode(), golden);
}

#[test]
fn nonsense_is_refused() {
    let piece = |length, count, sums: usize| {
        let extents = [Extent { first: u32::MAX - 1, count }].into();
        Arc::new(Content { pieces: [Piece { length, extents, sums: vec![0; sums].into() }].into(), parts: None })
    };
    for content in [piece(0, 0, 0), piece(4096, 2, 1), piece(4097, 1, 1), piece(4096, 1, 2), piece(8193, 3, 1)] {
        let mutation = Mutation::Put { name: name(), attributes: [].into(), content };
        let record = Record { settled_below: Opseq(1), mutation };
        assert!(Record::decode(&record.encode()).is_err(), "{record:?}");
    }
    let nameless = Mutation::Delete { name: Name::starting(BucketId(1), b"") };
    let record = Record { settled_below: Opseq(1), mutation: nameless };
    assert!(Record::decode(&record.encode()).is_err());
}
