//! What is packed is the same when it is unpacked, and bytes that are none are refused.

use std::sync::Arc;

use format::attributes::{Attributes, ETag};

use super::{CONTENT_TYPES, pack, read};
use crate::content::{Content, Extent, Object, PartMark, Piece};
use crate::name::Opseq;

fn piece(length: u32, extents: &[(u32, u32)]) -> Piece {
    let extents = extents.iter().map(|(first, count)| Extent { first: *first, count: *count }).collect();
    Piece { length, extents, sums: (0..length.div_ceil(65536)).map(|number| number * 77 + 5).collect() }
}

fn objects() -> Vec<Object> {
    let etags = [ETag::Md5([3; 16]), ETag::Fast([4; 16]), ETag::Multipart { digest: [5; 16], parts: 7 }];
    let types = CONTENT_TYPES.iter().map(|name| Some((*name).into())).chain([None, Some("x-own/type".into())]);
    let types: Vec<Option<bytes::Bytes>> = types.collect();
    let contents = [
        Content::default(),
        Content { pieces: [piece(64, &[(9, 1)])].into(), parts: None },
        Content { pieces: [piece(200_000, &[(1_000_000, 49)])].into(), parts: None },
        Content { pieces: [piece(200_000, &[(7, 40), (90, 9)])].into(), parts: None },
        Content { pieces: [piece(5, &[(7, 1)]), piece(6, &[(9, 1)])].into(), parts: None },
        Content { pieces: [piece(5, &[(7, 1)])].into(), parts: Some([PartMark { length: 5, checksum: None }].into()) },
    ];
    let mut objects = Vec::new();
    for (number, etag) in etags.into_iter().enumerate() {
        for content_type in &types {
            for content in &contents {
                let tags = if number == 1 { vec![("a".into(), "b".into())] } else { Vec::new() };
                let modified_ms = 1_790_000_000_000;
                let attributes =
                    Attributes { etag, modified_ms, content_type: content_type.clone(), tags, ..Attributes::default() };
                let attributes = attributes.to_bytes().to_vec().into();
                objects.push(Object { opseq: Opseq(300), attributes, content: Arc::new(content.clone()) });
            }
        }
    }
    objects
}

#[test]
fn what_is_packed_is_unpacked() {
    for object in objects() {
        let body = pack(&object);
        assert_eq!(read(&body), Some(object));
        for length in 0..body.len() {
            assert_eq!(read(&body[..length]), None, "{length} of {} bytes", body.len());
        }
    }
}

#[test]
fn a_usual_object_is_these_bytes() {
    let object = &objects()[1];
    let mut golden = vec![0xac, 0x02, 5];
    golden.extend([3; 16]);
    golden.extend([0x80, 0xd8, 0xc1, 0xa2, 0x8c, 0x34, 1, 0, 64, 9, 5, 0, 0, 0]);
    assert_eq!(pack(object), golden);
}
