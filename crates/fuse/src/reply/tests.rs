use bytes::Bytes;
use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use zerocopy::FromBytes;

use super::*;
use crate::abi::Dirent;
use crate::attributes::{Attributes, Timestamp};
use crate::ids::NodeId;
use crate::lock::LockKind;
use crate::request::ReadDirectory;

/// A whole reply as one write sends it.
fn bytes<B: Body>(form: Form, body: B) -> Result<Vec<u8>, Errno> {
    body.encode(form, |parts| {
        let header = success_header(6, parts);
        let bytes = [&[header.as_bytes()], parts].concat().concat();
        assert_eq!(header.len as usize, bytes.len());
        bytes
    })
}

fn payload<B: Body>(form: Form, body: B) -> Result<Vec<u8>, Errno> {
    bytes(form, body).map(|bytes| bytes[abi::OUT_HEADER_BYTES..].to_vec())
}

fn attributes() -> Attributes {
    let time = |seconds, nanos| Timestamp { seconds, nanos };
    Attributes {
        ino: 1,
        size: 2,
        blocks: 3,
        atime: time(4, 7),
        mtime: time(-5, 8),
        ctime: time(6, 9),
        mode: 0o100_644,
        nlink: 10,
        uid: 11,
        gid: 12,
        rdev: 0x0012_3456,
        block_bytes: 4096,
    }
}

fn entry() -> Entry {
    Entry {
        node: NodeId(1),
        generation: 2,
        attributes: attributes(),
        entry_valid: Duration::new(3, 5),
        attributes_valid: Duration::new(4, 6),
    }
}

#[rustfmt::skip]
const GOLDEN_ATTRIBUTES: [u8; 88] = [
    1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, // inode, size, blocks
    4, 0, 0, 0, 0, 0, 0, 0, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 6, 0, 0, 0, 0, 0, 0, 0, // seconds
    7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, // nanoseconds
    0xa4, 0x81, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0, // mode, links, uid, gid
    0x56, 0x34, 0x12, 0, 0, 16, 0, 0, 0, 0, 0, 0, // device, block, flags
];

#[test]
fn golden_bytes_of_attributes_and_entries() {
    let reply = bytes(Form::PLAIN, AttributesFor { attributes: attributes(), valid: Duration::new(9, 8) }).unwrap();
    let head = [120, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(reply, [&head[..], &GOLDEN_ATTRIBUTES].concat());
    let mut golden = [1_u64, 2, 3, 4].as_bytes().to_vec();
    golden.extend_from_slice([5_u32, 6].as_bytes());
    golden.extend_from_slice(&GOLDEN_ATTRIBUTES);
    assert_eq!(payload(Form::PLAIN, entry()).unwrap(), golden);
    assert_eq!(payload(Form::PLAIN, Found::Entry(entry())).unwrap(), golden);
    let opened = Opened { keep_cache: true, ..Opened::new(FileHandle(3)) };
    golden.extend_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(payload(Form::PLAIN, Created { entry: entry(), opened }).unwrap(), golden);
}

#[test]
fn an_absent_name_is_node_0_for_a_while_and_nothing_else_is() {
    let absent = payload(Form::PLAIN, Found::Absent { valid: Duration::from_secs(2) }).unwrap();
    let read = EntryOut::read_from_bytes(&absent).unwrap();
    assert_eq!(read, EntryOut { entry_seconds: 2, ..EntryOut::default() });
    assert_eq!(payload(Form::PLAIN, Entry { node: NodeId(0), ..entry() }), Err(Errno::IO));
}

#[test]
fn golden_bytes_of_small_replies() {
    let plain = |words: &[u64]| words.as_bytes().to_vec();
    assert_eq!(payload(Form::PLAIN, ()), Ok(vec![]));
    assert_eq!(payload(Form::limited(7), Written(7)), Ok(plain(&[7])));
    assert_eq!(payload(Form::PLAIN, Copied(7)), Ok(plain(&[7])));
    assert_eq!(payload(Form { limit: 0, wide: true }, Copied(1 << 40)), Ok(plain(&[1 << 40])));
    assert_eq!(payload(Form::PLAIN, Copied(1 << 40)), Err(Errno::IO), "more than the short form carries");
    assert_eq!(payload(Form::PLAIN, Block(9)), Ok(plain(&[9])));
    assert_eq!(payload(Form::PLAIN, Events(5)), Ok(plain(&[5])));
    assert_eq!(payload(Form::PLAIN, Position(1 << 33)), Ok(plain(&[1 << 33])));
    let lock = Lock { start: 1, end: 2, kind: LockKind::Unlock, pid: 3 };
    assert_eq!(payload(Form::PLAIN, lock), Ok(plain(&[1, 2, 3 << 32 | 2])));
    let ioctl = IoctlResult { result: -1, output: b"out".to_vec() };
    assert_eq!(payload(Form::limited(3), ioctl.clone()).unwrap(), [&[255; 4][..], &[0; 12], b"out"].concat());
    assert_eq!(payload(Form::limited(2), ioctl), Err(Errno::IO));
    let state = FileSystemState {
        blocks: 1,
        blocks_free: 2,
        blocks_available: 3,
        files: 4,
        files_free: 5,
        block_bytes: 6,
        fragment_bytes: 8,
        name_bytes_max: 7,
    };
    let golden = [plain(&[1, 2, 3, 4, 5, 7 << 32 | 6, 8, 0, 0, 0])].concat();
    assert_eq!(payload(Form::PLAIN, state), Ok(golden));
}

#[test]
fn statx_has_the_time_of_creation_and_both_halves_of_a_device() {
    let statx = StatxAttributes {
        attributes: attributes(),
        created: Timestamp { seconds: 20, nanos: 21 },
        valid: Duration::from_secs(1),
    };
    let bytes = payload(Form::PLAIN, statx).unwrap();
    let read = abi::StatxOut::read_from_bytes(&bytes).unwrap();
    assert_eq!((read.attr_seconds, read.stat.mask, read.stat.mode), (1, 0xfff, 0o100_644));
    assert_eq!((read.stat.btime.seconds, read.stat.btime.nanos, read.stat.mtime.seconds), (20, 21, -5));
    assert_eq!((read.stat.rdev_major, read.stat.rdev_minor), (0x234, 0x156));
}

#[test]
fn data_are_no_longer_than_was_asked_for() {
    assert_eq!(payload(Form::limited(3), Data(Bytes::from_static(b"abc"))), Ok(b"abc".to_vec()));
    assert_eq!(payload(Form::limited(3), Data(Bytes::from_static(b"abcd"))), Err(Errno::IO));
    assert_eq!(payload(Form::limited(3), DataParts(&[b"a", b"bc"])), Ok(b"abc".to_vec()));
    assert_eq!(payload(Form::limited(3), DataParts(&[b"ab", b"cd"])), Err(Errno::IO));
    assert_eq!(payload(Form::limited(99), DataParts(&[&b"a"[..]; MAX_PARTS])), Err(Errno::IO), "the header is a part, too");
    assert_eq!(payload(Form::limited(2), Written(3)), Err(Errno::IO));
}

#[test]
fn an_attributes_value_answers_the_question_for_its_size() {
    let value = || AttributeValue(b"value".to_vec());
    assert_eq!(payload(Form::limited(0), value()), Ok(vec![5, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(payload(Form::limited(4), value()), Err(Errno::RANGE));
    assert_eq!(payload(Form::limited(5), value()), Ok(b"value".to_vec()));
}

#[test]
fn errors_are_negated_and_the_kernels_own_are_kept_from_it() {
    assert_eq!(error_header(6, Errno::NOENT), OutHeader { len: 16, error: -2, unique: 6 });
    let own = Errno::from_raw_os_error(512);
    assert_eq!(error_header(6, own).error, -Errno::IO.raw_os_error());
}

fn request(size: u32) -> ReadDirectory {
    ReadDirectory { node: NodeId(1), handle: FileHandle(0), cookie: 0, size }
}

#[test]
fn golden_bytes_of_listings() {
    let name = DirectoryEntry { ino: 9, cookie: 3, mode: 0o40_755, name: b"abc" };
    let record = [[9_u64, 3, 4 << 32 | 3].as_bytes(), b"abc\0\0\0\0\0"].concat();
    let mut listing = Listing::new(&request(63));
    assert!(listing.push(&name));
    assert!(!listing.push(&name), "63 bytes have room for one record of 32");
    assert_eq!(payload(Form::limited(63), listing), Ok(record.clone()));
    let mut plus = PlusListing::new(&request(320));
    assert!(plus.push(None, &name) && plus.push(Some(&entry()), &name));
    assert!(!plus.push(None, &name));
    let bytes = payload(Form::limited(320), plus).unwrap();
    assert_eq!(bytes[..160], [&[0; 128][..], &record].concat(), "without a reference");
    assert_eq!(bytes[160..288], *entry().to_wire().as_bytes());
    assert_eq!(bytes[288..], record);
}

proptest! {
    #[test]
    fn a_listing_reads_as_it_was_written(
        names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..256), 0..40), size in 0_u32..5000,
    ) {
        let mut listing = Listing::new(&request(size));
        let mut taken = 0;
        for (index, name) in names.iter().enumerate() {
            let entry = DirectoryEntry { ino: 7, cookie: index as u64 + 1, mode: 0o100_000, name };
            if !listing.push(&entry) {
                break;
            }
            taken += 1;
        }
        let bytes = payload(Form::limited(size), listing).unwrap();
        prop_assert!(bytes.len() <= size as usize);
        let mut rest = &bytes[..];
        for (index, name) in names[..taken].iter().enumerate() {
            let (dirent, after) = Dirent::read_from_prefix(rest).unwrap();
            prop_assert_eq!((dirent.ino, dirent.offset, dirent.kind), (7, index as u64 + 1, 8));
            prop_assert_eq!(&after[..dirent.name_bytes as usize], name);
            rest = &rest[(24 + name.len()).next_multiple_of(8)..];
        }
        prop_assert!(rest.is_empty());
    }
}
