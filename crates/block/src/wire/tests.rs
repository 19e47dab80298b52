use bytes::Bytes;
use format::blob_header::BlobState;
use format::decode::Fault;
use proptest::prelude::*;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageEpoch, ImageId, Layer, LayerOf, Pieces, Token};

use super::*;
use crate::stores::{Admission, BlobAt, BlobRow, BlobSums, Change, NewBlob};

fn id() -> impl Strategy<Value = BlobId> {
    (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(image, index, layer)| BlobId {
        image: ImageId(image),
        index,
        layer: Layer(layer),
    })
}

fn at() -> impl Strategy<Value = BlobAt> {
    (any::<u32>(), id()).prop_map(|(block, id)| BlobAt { block, id })
}

fn admission() -> impl Strategy<Value = Admission> {
    (any::<u64>(), any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(image, token, session, epoch)| Admission {
        image: ImageId(image),
        token: Token(token),
        session,
        epoch: ImageEpoch(epoch),
    })
}

fn parent() -> impl Strategy<Value = Option<LayerOf>> {
    let layer = (any::<u64>(), any::<u32>()).prop_map(|(image, layer)| LayerOf { image: ImageId(image), layer: Layer(layer) });
    prop::option::of(layer)
}

fn state() -> impl Strategy<Value = BlobState> {
    prop_oneof![Just(BlobState::Whole), Just(BlobState::Partial)]
}

fn change() -> impl Strategy<Value = Change> {
    let content = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    (any::<u32>(), content, any::<[u64; 3]>()).prop_map(|(offset, content, [filled, zeroed, dropped])| Change {
        offset,
        content,
        filled: Pieces(filled),
        zeroed: Pieces(zeroed),
        dropped: Pieces(dropped),
    })
}

fn new() -> impl Strategy<Value = NewBlob> {
    (id(), state(), parent()).prop_map(|(id, state, parent)| NewBlob { id, state, parent })
}

fn row() -> impl Strategy<Value = BlobRow> {
    (at(), state(), any::<[u64; 4]>(), parent()).prop_map(|(at, state, [token, epoch, owned, data], parent)| BlobRow {
        at,
        state,
        token: Token(token),
        epoch: ImageEpoch(epoch),
        owned: Pieces(owned),
        data: Pieces(data),
        parent,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let asked = prop_oneof![
        (admission(), prop::option::of(id())).prop_map(|(admission, after)| ToDevice::Enter { admission, after }),
        (admission(), new(), change()).prop_map(|(admission, blob, change)| ToDevice::Create { admission, blob, change }),
        (admission(), at(), change()).prop_map(|(admission, at, change)| ToDevice::Change { admission, at, change }),
        (admission(), at()).prop_map(|(admission, at)| ToDevice::Complete { admission, at }),
        (prop::option::of(admission()), at(), any::<u32>(), any::<u32>())
            .prop_map(|(admission, at, offset, length)| ToDevice::Read { admission, at, offset, length }),
        (admission(), id()).prop_map(|(admission, id)| ToDevice::Sums { admission, id }),
        (admission(), at()).prop_map(|(admission, at)| ToDevice::Free { admission, at }),
        Just(ToDevice::Flush),
        (any::<u64>(), prop::option::of(id())).prop_map(|(image, after)| ToDevice::Rows { image: ImageId(image), after }),
    ];
    prop_oneof![
        1 => Just(Request::Usage),
        9 => (any::<u32>(), asked).prop_map(|(device, asked)| Request::Device(DeviceId(device), asked)),
    ]
}

fn failure() -> impl Strategy<Value = StoreError> {
    prop_oneof![
        Just(StoreError::Superseded),
        Just(StoreError::Unknown),
        any::<u32>().prop_map(|device| StoreError::NoSpace(DeviceId(device))),
        Just(StoreError::Absent),
        ".{0,40}".prop_map(StoreError::Invalid),
        ".{0,40}".prop_map(StoreError::Failed),
        ".{0,40}".prop_map(StoreError::Silent),
    ]
}

fn uses() -> impl Strategy<Value = Usage> {
    let used = any::<[u64; 3]>().prop_map(|[image, blocks, pieces]| NodeUse { image: ImageId(image), blocks, pieces });
    (any::<u64>(), prop::collection::vec(used, 0..5)).prop_map(|(room_bytes, images)| Usage { room_bytes, images })
}

fn check<T: Wire + PartialEq + std::fmt::Debug + Clone>(answer: &T) {
    let good = Ok(answer.clone());
    let bytes = encode_answer(&good);
    assert_eq!(decode_answer::<T>(&bytes), Ok(good));
    let mut longer = bytes.to_vec();
    longer.push(0);
    // Only content has no end of its own.
    assert_eq!(decode_answer::<T>(&longer.into()).is_err(), std::any::type_name::<T>() != std::any::type_name::<Bytes>());
}

/// What can be made of bytes is written as these again.
fn check_bytes<T: Wire>(bytes: &Bytes) {
    if let Ok(answer) = decode_answer::<T>(bytes) {
        assert_eq!(encode_answer(&answer), bytes);
    }
}

proptest! {
    #[test]
    fn requests_come_back(request in request()) {
        let bytes = encode_request(&request);
        prop_assert_eq!(decode_request(&bytes), Ok(request));
    }

    #[test]
    fn answers_come_back(
        failure in failure(),
        rows in prop::collection::vec(row(), 0..5),
        sums in prop::collection::vec(any::<[u8; 16]>(), 0..5),
        row in row(),
        uses in uses(),
        content in prop::collection::vec(any::<u8>(), 0..50),
        block in any::<u32>(),
    ) {
        let failed = Err(failure);
        prop_assert_eq!(decode_answer::<()>(&encode_answer(&failed)), Ok(failed));
        check(&rows);
        check(&BlobSums { row, sums });
        check(&uses);
        check(&Bytes::from(content));
        check(&block);
        check(&());
    }

    #[test]
    fn no_bytes_are_trusted(bytes in prop::collection::vec(any::<u8>(), 0..150), kind in 0_u8..12) {
        for bytes in [Bytes::from(bytes.clone()), Bytes::from([&[kind], bytes.as_slice()].concat())] {
            if let Ok(request) = decode_request(&bytes) {
                assert_eq!(encode_request(&request), bytes);
            }
            check_bytes::<()>(&bytes);
            check_bytes::<u32>(&bytes);
            check_bytes::<Vec<BlobRow>>(&bytes);
            check_bytes::<BlobSums>(&bytes);
            check_bytes::<Usage>(&bytes);
            check_bytes::<Bytes>(&bytes);
        }
    }
}

fn some_row() -> BlobRow {
    let id = BlobId { image: ImageId(7), index: 3, layer: Layer(2) };
    let parent = Some(LayerOf { image: ImageId(5), layer: Layer(1) });
    let (owned, data) = (Pieces(0xff), Pieces(0xf));
    BlobRow { at: BlobAt { block: 9, id }, state: BlobState::Whole, token: Token(4), epoch: ImageEpoch(1), owned, data, parent }
}

#[test]
fn lists_and_content_have_limits() {
    let rows = vec![some_row(); MAX_PAGE_ROWS];
    let page = encode_answer(&Ok(rows.clone()));
    assert_eq!(page.len(), 5 + MAX_PAGE_ROWS * field::MAX_ROW_BYTES);
    assert_eq!(decode_answer::<Vec<BlobRow>>(&page), Ok(Ok(rows)));
    // A count that is greater than the bytes allow, and one that is greater than the limit.
    for count in [2_u32, MAX_PAGE_ROWS as u32 + 1] {
        let mut bytes = encode_answer(&Ok(vec![some_row()])).to_vec();
        bytes[1..5].copy_from_slice(&count.to_le_bytes());
        let error = decode_answer::<Vec<BlobRow>>(&bytes.into()).expect_err("too many");
        assert_eq!(error.field, "rows");
        assert!(matches!(error.fault, Fault::OutOfRange { .. }), "{error}");
    }
    let mut bytes = vec![0; 1 + BLOB_BYTES as usize];
    assert!(decode_answer::<Bytes>(&bytes.clone().into()).is_ok());
    bytes.push(0);
    assert_eq!(decode_answer::<Bytes>(&bytes.into()).expect_err("too long").field, "content");
}

#[test]
fn content_is_not_copied() {
    let admission = Admission { image: ImageId(1), token: Token(2), session: 3, epoch: ImageEpoch(4) };
    let change = Change { content: vec![5; 4096].into(), ..Change::default() };
    let asked = ToDevice::Change { admission, at: some_row().at, change };
    let bytes = encode_request(&Request::Device(DeviceId(1), asked));
    let Ok(Request::Device(_, ToDevice::Change { change, .. })) = decode_request(&bytes) else { panic!("a change") };
    assert!(bytes.as_ptr_range().contains(&change.content.as_ptr()));
}

#[test]
fn a_long_reason_is_cut_between_letters() {
    let failed: Result<(), _> = Err(StoreError::Failed("ä".repeat(MAX_REASON_BYTES)));
    let Ok(Err(StoreError::Failed(reason))) = decode_answer::<()>(&encode_answer(&failed)) else { panic!("a failure") };
    assert_eq!(reason, "ä".repeat(MAX_REASON_BYTES / 2));
}
