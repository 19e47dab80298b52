//! `fuse::request`: no message of the kernel's makes the decoder panic, and what it accepts points into the message.
#![no_main]

use fuse::SessionId;
use fuse::request::{Operation, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut message = bytes.to_vec();
    // The length and a known opcode are put right, or little else is reached.
    if message.len() >= 5 {
        message[4] %= 64;
        message[5..].iter_mut().take(3).for_each(|byte| *byte = 0);
        let len = message.len() as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
    }
    let Ok(request) = Request::decode(&message, SessionId(1)) else { return };
    let borrowed: Vec<&[u8]> = match &request.operation {
        Operation::Lookup(lookup) => vec![lookup.name.as_bytes()],
        Operation::Symlink(symlink) => vec![symlink.name.as_bytes()],
        Operation::Rename(rename) => vec![rename.name.as_bytes(), rename.new_name.as_bytes()],
        Operation::Create(create) => vec![create.name.as_bytes()],
        Operation::Setxattr(set) => vec![set.name.as_bytes()],
        Operation::Forget(forgets) => {
            assert!(forgets.iter().count() * 8 <= message.len());
            vec![]
        }
        Operation::Write(write) => {
            assert!(write.data.len() <= message.len() - 80);
            vec![]
        }
        _ => vec![],
    };
    for name in borrowed {
        assert!(!name.is_empty() && !name.contains(&0));
    }
});
