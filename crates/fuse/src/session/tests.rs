//! Sessions against a kernel that the test plays: a socket that keeps messages apart stands for `/dev/fuse`.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::abi::{self, InHeader, NotifyCode, Opcode, OutHeader};
use crate::ids::{NodeId, RequestId};
use crate::lock::Lock;
use crate::reply::{Data, Found};
use crate::request::{Caller, Flush, Forget, Lookup, ReadLink, SetLock};

const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps the replies of lookups and locks, and tells the test what is called. Links it answers at once.
struct Keeping {
    calls: SyncSender<Call>,
    lookups: Mutex<Vec<Reply<Found>>>,
    locks: Mutex<Vec<Reply<()>>>,
}

#[derive(Debug, PartialEq)]
enum Call {
    Lookup(Caller),
    Lock,
    Interrupted(RequestId),
    Forget(Forget),
    Destroyed(End),
}

impl FileSystem for Keeping {
    fn destroy(&self, end: &End) {
        self.calls.send(Call::Destroyed(end.clone())).unwrap();
    }

    fn interrupted(&self, id: RequestId) {
        self.calls.send(Call::Interrupted(id)).unwrap();
    }

    fn forget(&self, forget: Forget) {
        self.calls.send(Call::Forget(forget)).unwrap();
    }

    fn lookup(&self, caller: &Caller, _request: Lookup<'_>, reply: Reply<Found>) {
        self.lookups.lock().push(reply);
        self.calls.send(Call::Lookup(*caller)).unwrap();
    }

    fn setlk(&self, _caller: &Caller, _request: SetLock, reply: Reply<()>) {
        self.locks.lock().push(reply);
        self.calls.send(Call::Lock).unwrap();
    }

    fn readlink(&self, _caller: &Caller, _request: ReadLink, reply: Reply<Data>) {
        reply.parts(&[b"to", b"there"]);
    }

    /// Drops its reply.
    fn flush(&self, _caller: &Caller, _request: Flush, _reply: Reply<()>) {}
}

struct Kernel {
    socket: OwnedFd,
    file_system: Arc<Keeping>,
    calls: Receiver<Call>,
    session: Session,
}

impl Kernel {
    fn start() -> Self {
        let (socket, device) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let negotiated = Negotiated {
            minor: abi::MINOR,
            flags: HAS_RESEND,
            max_readahead_bytes: 4096,
            max_write_bytes: 4096,
            max_background: 4,
            request_timeout_s: 0,
        };
        let mount = Mount::from_descriptors(vec![device], negotiated, PathBuf::from("/nowhere"));
        let (sender, calls) = sync_channel(MAX_IN_FLIGHT + MAX_THREADS);
        let file_system = Arc::new(Keeping { calls: sender, lookups: Mutex::default(), locks: Mutex::default() });
        let options = SessionOptions { session: SessionId(9), threads: 1, ..SessionOptions::default() };
        let session = Session::start(mount, Arc::clone(&file_system), &options).unwrap();
        let kernel = Kernel { socket, file_system, calls, session };
        let (resend, _) = kernel.receive();
        assert_eq!((resend.unique, resend.error), (0, NotifyCode::Resend.code()), "a mount that is taken over");
        kernel
    }

    fn send(&self, opcode: Opcode, unique: u64, body: &[u8]) {
        self.send_raw(opcode.code(), unique, body);
    }

    fn send_raw(&self, opcode: u32, unique: u64, body: &[u8]) {
        let len = (abi::IN_HEADER_BYTES + body.len()) as u32;
        let header = InHeader { len, opcode, unique, node: 7, ..InHeader::default() };
        rustix::io::write(&self.socket, &[header.as_bytes(), body].concat()).unwrap();
    }

    fn receive(&self) -> (OutHeader, Vec<u8>) {
        assert!(self.has_answer(PATIENCE), "no answer");
        let mut bytes = [0; 8192];
        let read = rustix::io::read(&self.socket, &mut bytes).unwrap();
        let (header, body) = OutHeader::read_from_prefix(&bytes[..read]).unwrap();
        assert_eq!(header.len as usize, read);
        (header, body.to_vec())
    }

    fn has_answer(&self, patience: Duration) -> bool {
        let device = Device::from(rustix::io::fcntl_dupfd_cloexec(&self.socket, 0).unwrap());
        device.wait_readable(patience).unwrap()
    }

    fn call(&self) -> Call {
        self.calls.recv_timeout(PATIENCE).unwrap()
    }

    fn expect_error(&self, unique: u64, errno: Errno) {
        let (header, body) = self.receive();
        assert_eq!((header.unique, header.error, body.len()), (unique, -errno.raw_os_error(), 0));
    }
}

fn lock_wait() -> Vec<u8> {
    let lock = abi::WireLock { start: 0, end: Lock::TO_THE_END, kind: abi::LOCK_WRITE, pid: 1 };
    abi::LkIn { lock, ..abi::LkIn::default() }.as_bytes().to_vec()
}

#[test]
fn answers_go_out_at_once_or_later_from_another_thread() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Lookup, 2, b"late\0");
    let Call::Lookup(caller) = kernel.call() else { panic!("no lookup") };
    assert_eq!((caller.id, caller.session, caller.resent), (RequestId(2), SessionId(9), false));
    kernel.send(Opcode::Readlink, 4, &[]);
    let (header, body) = kernel.receive();
    assert_eq!((header.unique, header.error, &body[..]), (4, 0, &b"tothere"[..]));
    assert_eq!(kernel.session.in_flight(), 1);
    let reply = kernel.file_system.lookups.lock().pop().unwrap();
    let delivery = std::thread::spawn(move || reply.error(Errno::NOENT)).join().unwrap();
    assert_eq!(delivery, Delivery::Delivered);
    kernel.expect_error(2, Errno::NOENT);
    assert_eq!(kernel.session.in_flight(), 0);
}

#[test]
fn what_is_not_answered_is_answered_with_an_error() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Flush, 2, abi::FlushIn::default().as_bytes());
    kernel.expect_error(2, Errno::IO);
    kernel.send_raw(2016, 4, &[]);
    kernel.expect_error(4, Errno::NOSYS);
    kernel.send(Opcode::Statfs, 6, &[]);
    kernel.expect_error(6, Errno::NOSYS);
    kernel.send(Opcode::Lookup, 8, b"no end");
    kernel.expect_error(8, Errno::IO);
    kernel.send(Opcode::Readlink, 10, &[]);
    assert_eq!(kernel.receive().0.error, 0, "the thread goes on");
}

#[test]
fn an_interrupt_reaches_its_request_or_goes_back() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Interrupt, 3, &2_u64.to_ne_bytes());
    kernel.expect_error(3, Errno::AGAIN);
    kernel.send(Opcode::Setlkw, 2, &lock_wait());
    assert_eq!(kernel.call(), Call::Lock);
    assert!(!kernel.file_system.locks.lock()[0].is_interrupted());
    kernel.send(Opcode::Interrupt, 3, &2_u64.to_ne_bytes());
    assert_eq!(kernel.call(), Call::Interrupted(RequestId(2)));
    let reply = kernel.file_system.locks.lock().pop().unwrap();
    assert!(reply.is_interrupted());
    reply.error(Errno::INTR);
    kernel.expect_error(2, Errno::INTR);
    kernel.send(Opcode::Interrupt, 3, &2_u64.to_ne_bytes());
    kernel.expect_error(3, Errno::AGAIN);
}

#[test]
fn a_request_that_is_sent_again_while_it_is_under_way_is_served_once() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Setlkw, 2, &lock_wait());
    assert_eq!(kernel.call(), Call::Lock);
    kernel.send(Opcode::Setlkw, 2 | abi::UNIQUE_RESEND, &lock_wait());
    kernel.send(Opcode::Interrupt, 3 | abi::UNIQUE_RESEND, &(2 | abi::UNIQUE_RESEND).to_ne_bytes());
    assert_eq!(kernel.call(), Call::Interrupted(RequestId(2)), "the lock was not asked for again");
    let reply = kernel.file_system.locks.lock().pop().unwrap();
    reply.ok(());
    let (header, _) = kernel.receive();
    assert_eq!((header.unique, header.error), (2 | abi::UNIQUE_RESEND, 0), "with the mark that the kernel looks for");
}

#[test]
fn a_request_from_before_this_session_is_marked() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Lookup, 2 | abi::UNIQUE_RESEND, b"a\0");
    let Call::Lookup(caller) = kernel.call() else { panic!("no lookup") };
    assert_eq!((caller.id, caller.resent), (RequestId(2), true));
}

#[test]
fn forgets_have_no_answer() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Forget, 2, &3_u64.to_ne_bytes());
    assert_eq!(kernel.call(), Call::Forget(Forget { node: NodeId(7), lookups: 3 }));
    kernel.send(Opcode::Readlink, 4, &[]);
    assert_eq!(kernel.receive().0.unique, 4);
}

#[test]
fn requests_beyond_the_limit_wait_until_others_are_answered() {
    let kernel = Kernel::start();
    for index in 0..=MAX_IN_FLIGHT as u64 {
        kernel.send(Opcode::Lookup, 2 * index + 2, b"a\0");
        if index < MAX_IN_FLIGHT as u64 {
            assert!(matches!(kernel.call(), Call::Lookup(_)));
        }
    }
    // The last one was read, or is about to be, and is not handed on: the table is full.
    assert!(kernel.calls.try_recv().is_err());
    kernel.file_system.lookups.lock().pop().unwrap().error(Errno::NOENT);
    assert!(matches!(kernel.call(), Call::Lookup(_)));
    assert_eq!(kernel.session.in_flight(), MAX_IN_FLIGHT);
}

#[test]
fn waits_for_locks_beyond_their_limit_are_refused() {
    let kernel = Kernel::start();
    for index in 0..MAX_WAITING_LOCKS as u64 {
        kernel.send(Opcode::Setlkw, 2 * index + 2, &lock_wait());
        assert_eq!(kernel.call(), Call::Lock);
    }
    let last = 2 * MAX_WAITING_LOCKS as u64 + 2;
    kernel.send(Opcode::Setlkw, last, &lock_wait());
    kernel.expect_error(last, Errno::NOLCK);
    kernel.send(Opcode::Setlk, last + 2, &lock_wait());
    assert_eq!(kernel.call(), Call::Lock, "a lock that does not wait, or unlocks, is served");
}

#[test]
fn a_session_ends_with_its_mount_and_late_answers_are_told_so() {
    let kernel = Kernel::start();
    kernel.send(Opcode::Lookup, 2, b"a\0");
    assert!(matches!(kernel.call(), Call::Lookup(_)));
    assert_eq!(kernel.session.wait_for(Duration::from_millis(1)), None);
    let Kernel { socket, file_system, calls, session } = kernel;
    drop(socket);
    assert_eq!(session.wait_for(PATIENCE), Some(End::Unmounted));
    assert_eq!(calls.recv_timeout(PATIENCE), Ok(Call::Destroyed(End::Unmounted)));
    let late = file_system.lookups.lock().pop().unwrap().error(Errno::NOENT);
    assert_eq!(late, Delivery::Gone);
}

#[test]
fn a_session_with_impossible_threads_is_refused() {
    for threads in [0, MAX_THREADS + 1] {
        let (_socket, device) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mount = Mount { devices: vec![Device::from(device)], point: PathBuf::new(), negotiated: None };
        let (calls, _receiver) = sync_channel(1);
        let file_system = Arc::new(Keeping { calls, lookups: Mutex::default(), locks: Mutex::default() });
        let options = SessionOptions { threads, ..SessionOptions::default() };
        let refused = Session::begin(mount, file_system, &options, |_| {});
        assert!(matches!(refused, Err(SessionError::Threads { threads: said }) if said == threads), "{refused:?}");
    }
}

#[test]
fn a_session_that_stops_leaves_what_is_not_answered_to_the_next_one() {
    let kernel = Kernel::start();
    for unique in [2, 4, 6] {
        kernel.send(Opcode::Lookup, unique, b"a\0");
        assert!(matches!(kernel.call(), Call::Lookup(_)));
    }
    kernel.session.begin_to_stop();
    assert_eq!(kernel.session.wait_for(PATIENCE), Some(End::Stopped));
    assert_eq!(kernel.call(), Call::Destroyed(End::Stopped));
    let mut replies = std::mem::take(&mut *kernel.file_system.lookups.lock());
    assert_eq!(replies.remove(0).error(Errno::NOENT), Delivery::Delivered, "an answer in time counts");
    kernel.expect_error(2, Errno::NOENT);
    // The task that had it was dropped with its runtime.
    drop(replies.remove(0));
    assert_eq!(kernel.session.abandon(), 2);
    assert_eq!(replies.remove(0).error(Errno::NOENT), Delivery::Gone);
    assert!(!kernel.has_answer(Duration::from_millis(50)));
}
