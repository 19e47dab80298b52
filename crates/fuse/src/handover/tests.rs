use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use super::*;

const NEGOTIATED: Negotiated = Negotiated {
    minor: 45,
    flags: 0x8123_4567_89ab_cdef,
    max_readahead_bytes: 1,
    max_write_bytes: 2,
    max_background: 3,
    request_timeout_s: 4,
};

#[test]
fn what_is_sent_arrives() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<File> = ["a", "b"].iter().map(|name| File::create(folder.path().join(name)).unwrap()).collect();
    let sent = Handover {
        descriptors: files.iter().map(AsFd::as_fd).collect(),
        negotiated: NEGOTIATED,
        point: PathBuf::from("/mnt/somewhere"),
    };
    sent.send(&ours).unwrap();
    let received = Handover::receive(&theirs).unwrap();
    assert_eq!((received.negotiated, received.point), (NEGOTIATED, sent.point));
    let inodes = |files: Vec<File>| files.iter().map(|file| file.metadata().unwrap().ino()).collect::<Vec<_>>();
    assert_eq!(inodes(received.descriptors.into_iter().map(File::from).collect()), inodes(files));
}

#[test]
fn what_is_no_handover_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    rustix::io::write(&ours, &[0; 8]).unwrap();
    assert_eq!(Handover::receive(&theirs).map(drop), Err(HandoverError::Message("it is too short")));
    rustix::io::write(&ours, Record { descriptors: 1, ..Record::default() }.as_bytes()).unwrap();
    let refused = Handover::receive(&theirs).map(drop);
    assert!(matches!(refused, Err(HandoverError::Message(why)) if why.starts_with("descriptors are missing")), "{refused:?}");
    drop(ours);
    assert_eq!(Handover::receive(&theirs).map(drop), Err(HandoverError::Message("it is too short")), "the other end is gone");
}

#[test]
fn too_many_descriptors_are_refused() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    let count = MAX_THREADS + 1;
    let sent = Handover { descriptors: vec![file.as_fd(); count], negotiated: NEGOTIATED, point: PathBuf::new() };
    assert_eq!(sent.send(&ours), Err(HandoverError::TooManyDescriptors { count }));
}
