use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::*;

/// What Linux 6.18 offers, shortened to what is known here, with some that are never taken.
fn offer() -> Init {
    let all = REQUIRED.iter().fold(0, |flags, (bit, _)| flags | bit);
    let optional = init::POSIX_LOCKS
        | init::FLOCK_LOCKS
        | init::POSIX_ACL
        | init::EXPORT_SUPPORT
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::WRITEBACK_CACHE
        | init::EXPLICIT_INVAL_DATA
        | init::AUTO_INVAL_DATA
        | init::CACHE_SYMLINKS
        | init::DIRECT_IO_ALLOW_MMAP
        | init::REQUEST_TIMEOUT;
    let never = init::NO_OPEN_SUPPORT | init::NO_OPENDIR_SUPPORT | init::HAS_INODE_DAX;
    Init { major: 7, minor: 45, max_readahead: 131_072, flags: all | optional | never | WHERE_OFFERED }
}

#[test]
fn what_is_never_asked_for_is_left() {
    let negotiated = negotiate(&offer(), &Capabilities::default()).unwrap();
    for bit in
        [init::NO_OPEN_SUPPORT, init::NO_OPENDIR_SUPPORT, init::HAS_INODE_DAX, init::WRITEBACK_CACHE, init::AUTO_INVAL_DATA]
    {
        assert!(!negotiated.has(bit), "{bit:#x}");
    }
    for bit in [init::HAS_RESEND, init::HANDLE_KILLPRIV_V2, init::POSIX_ACL, init::DONT_MASK, init::EXPLICIT_INVAL_DATA] {
        assert!(negotiated.has(bit), "{bit:#x}");
    }
    assert!(!negotiated.has(init::POSIX_LOCKS) && !negotiated.has(init::FLOCK_LOCKS), "the kernel's own locks by default");
    assert_eq!((negotiated.max_readahead_bytes, negotiated.max_write_bytes), (131_072, MAX_WRITE_BYTES));
}

#[test]
fn the_reply_has_both_halves_of_the_flags() {
    let wire = negotiate(&offer(), &Capabilities::default()).unwrap().to_wire();
    assert_eq!((wire.major, wire.minor, wire.max_pages, wire.time_granularity), (7, 45, 256, 1));
    assert_eq!(u64::from(wire.flags2) << 32 & init::HAS_RESEND, init::HAS_RESEND);
    assert_eq!(u64::from(wire.flags) & init::INIT_EXT, init::INIT_EXT, "else the kernel passes flags2 over");
    assert_eq!((wire.max_background, wire.congestion_threshold), (64, 48));
}

#[test]
fn a_kernel_that_lacks_something_is_told_apart_from_one_that_is_too_old() {
    let old = Init { minor: 32, ..offer() };
    assert_eq!(negotiate(&old, &Capabilities::default()), Err(InitError::TooOld { major: 7, minor: 32 }));
    let other = Init { major: 8, minor: 1, ..offer() };
    assert_eq!(negotiate(&other, &Capabilities::default()), Err(InitError::NewerMajor { major: 8, minor: 1 }));
    let lacking = Init { flags: offer().flags & !init::HANDLE_KILLPRIV_V2 & !init::POSIX_ACL, ..offer() };
    let Err(InitError::Missing { missing }) = negotiate(&lacking, &Capabilities::default()) else { panic!("it was taken") };
    assert_eq!(missing, ["HANDLE_KILLPRIV_V2", "POSIX_ACL"]);
    let without_acl = Capabilities { posix_acl: false, ..Capabilities::default() };
    let Err(InitError::Missing { missing }) = negotiate(&lacking, &without_acl) else { panic!("it was taken") };
    assert_eq!(missing, ["HANDLE_KILLPRIV_V2"]);
}

#[test]
fn wishes_that_do_not_go_together_are_refused() {
    let unfit = |wanted: &Capabilities| match negotiate(&offer(), wanted) {
        Err(InitError::Unfit { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let wanted = Capabilities::default();
    assert_eq!(unfit(&Capabilities { max_write_bytes: MAX_WRITE_BYTES + 4096, ..wanted }), "max_write_bytes");
    assert_eq!(unfit(&Capabilities { max_write_bytes: 5000, ..wanted }), "max_write_bytes");
    assert_eq!(unfit(&Capabilities { max_background: 0, ..wanted }), "max_background");
    let locks = Capabilities { request_timeout_s: Some(30), flock_locks: true, ..wanted };
    assert_eq!(unfit(&locks), "request_timeout_s");
    let timed = negotiate(&offer(), &Capabilities { request_timeout_s: Some(30), ..wanted }).unwrap();
    assert_eq!((timed.to_wire().request_timeout, timed.has(init::REQUEST_TIMEOUT)), (30, true));
}

#[test]
fn both_forms_of_the_request_are_read() {
    let long =
        abi::InitIn { major: 7, minor: 45, max_readahead: 4096, flags: 1 << 30, flags2: 1 << 7, ..abi::InitIn::default() };
    let long = zerocopy::IntoBytes::as_bytes(&long);
    let read = Init::decode(long).unwrap();
    assert_eq!(read, Init { major: 7, minor: 45, max_readahead: 4096, flags: 1 << 30 | init::HAS_RESEND });
    let short = Init::decode(&long[..16]).unwrap();
    assert_eq!(short.flags, 1 << 30, "what is not sent is not offered");
    assert!(Init::decode(&long[..15]).is_err());
}

proptest! {
    #[test]
    fn nothing_is_taken_that_is_not_offered(
        flags in any::<u64>(), minor in 33_u32..60, readahead in any::<u32>(), locks in any::<bool>(), writeback in any::<bool>(),
        readdirplus in prop::sample::select(vec![Readdirplus::Never, Readdirplus::Auto, Readdirplus::Always]),
    ) {
        let offer = Init { major: 7, minor, max_readahead: readahead, flags };
        let wanted = Capabilities { posix_locks: locks, writeback_cache: writeback, readdirplus, ..Capabilities::default() };
        match negotiate(&offer, &wanted) {
            Ok(negotiated) => {
                prop_assert_eq!(negotiated.flags & !flags, 0);
                prop_assert!(negotiated.minor <= abi::MINOR && negotiated.minor <= minor);
                prop_assert!(negotiated.max_readahead_bytes <= readahead);
                prop_assert_eq!(negotiated.has(init::POSIX_LOCKS), locks);
                prop_assert_eq!(negotiated.has(init::WRITEBACK_CACHE), writeback);
            }
            Err(InitError::Missing { missing }) => prop_assert!(!missing.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
