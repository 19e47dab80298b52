//! One message of the kernel's: decoded, admitted, and handed to the file system.

use std::sync::Arc;

use rustix::io::Errno;

use super::core::Core;
use super::reply::Reply;
use crate::abi::Opcode;
use crate::file_system::FileSystem;
use crate::ids::RequestId;
use crate::reply::Form;
use crate::request::{Caller, DecodeError, DecodeProblem, Operation, Request};

/// The longest target of a symbolic link (`PATH_MAX`).
const MAX_LINK_BYTES: u32 = 4096;

/// Makes the reply of the request at hand, of the type that its operation has.
struct Replies<'a> {
    core: &'a Arc<Core>,
    id: RequestId,
}

impl Replies<'_> {
    fn with<T>(&self, form: Form) -> Reply<T> {
        Reply::new(Arc::clone(self.core), self.id, form)
    }
}

/// Serves one message that was read from the device with this index.
pub(super) fn serve<F: FileSystem>(core: &Arc<Core>, file_system: &F, device: usize, message: &[u8]) {
    let request = match Request::decode(message, core.session()) {
        Ok(request) => request,
        Err(error) => return refuse(core, device, &error),
    };
    let Request { caller, unique, opcode, operation } = request;
    match operation {
        Operation::Interrupt(id) => return interrupt(core, file_system, id, unique),
        Operation::Forget(forgets) => return forgets.iter().for_each(|forget| file_system.forget(forget)),
        Operation::NotifyReply(retrieved) => return file_system.retrieved(retrieved),
        // A second INIT never comes; the reply to DESTROY says nothing. The session's end is told when the device says so.
        Operation::Init(_) => return core.answer_directly(device, unique, Err(Errno::IO)),
        Operation::Destroy => return core.answer_directly(device, unique, Ok(())),
        _ => {}
    }
    let waits = matches!(&operation, Operation::Setlk(lock) if lock.wait);
    if !core.admit(caller.id, unique, device, waits) {
        return;
    }
    let replies = Replies { core, id: caller.id };
    match operation {
        operation if is_of_names(opcode) => serve_names(file_system, &caller, &replies, operation),
        operation => serve_files(file_system, &caller, &replies, opcode, operation),
    }
}

/// A request that can't be decoded is this crate's or the kernel's mistake; the call that waits for it gets an error.
fn refuse(core: &Core, device: usize, error: &DecodeError) {
    let errno = if error.problem == DecodeProblem::UnknownOpcode { Errno::NOSYS } else { Errno::IO };
    if errno == Errno::IO {
        tracing::error!(%error, "a request of the kernel's can't be read");
    }
    // FORGETs have no reply; the kernel does not know the number and says so.
    if error.unique != 0 {
        core.answer_directly(device, error.unique, Err(errno));
    }
}

fn interrupt<F: FileSystem>(core: &Core, file_system: &F, id: RequestId, unique: u64) {
    if core.interrupt(id) {
        file_system.interrupted(id);
    } else {
        core.return_interrupt(unique);
    }
}

/// Operations on names, attributes and directories.
fn is_of_names(opcode: Opcode) -> bool {
    use Opcode::{
        Access, Fsyncdir, Getattr, Link, Lookup, Mkdir, Mknod, Opendir, Readdir, Readdirplus, Readlink, Releasedir, Rename,
        Rename2, Rmdir, Setattr, Statfs, Statx, Symlink, Unlink,
    };
    matches!(opcode, Lookup | Getattr | Statx | Setattr | Readlink | Symlink | Mknod | Mkdir | Unlink | Rmdir)
        || matches!(opcode, Rename | Rename2 | Link | Opendir | Readdir | Readdirplus | Releasedir | Fsyncdir | Statfs | Access)
}

fn serve_names<F: FileSystem>(file_system: &F, caller: &Caller, replies: &Replies<'_>, operation: Operation<'_>) {
    match operation {
        Operation::Lookup(request) => file_system.lookup(caller, request, replies.with(Form::PLAIN)),
        Operation::Getattr(request) => file_system.getattr(caller, request, replies.with(Form::PLAIN)),
        Operation::Statx(request) => file_system.statx(caller, request, replies.with(Form::PLAIN)),
        Operation::Setattr(request) => file_system.setattr(caller, request, replies.with(Form::PLAIN)),
        Operation::Readlink(request) => file_system.readlink(caller, request, replies.with(Form::limited(MAX_LINK_BYTES))),
        Operation::Symlink(request) => file_system.symlink(caller, request, replies.with(Form::PLAIN)),
        Operation::Mknod(request) => file_system.mknod(caller, request, replies.with(Form::PLAIN)),
        Operation::Mkdir(request) => file_system.mkdir(caller, request, replies.with(Form::PLAIN)),
        Operation::Unlink(request) => file_system.unlink(caller, request, replies.with(Form::PLAIN)),
        Operation::Rmdir(request) => file_system.rmdir(caller, request, replies.with(Form::PLAIN)),
        Operation::Rename(request) => file_system.rename(caller, request, replies.with(Form::PLAIN)),
        Operation::Link(request) => file_system.link(caller, request, replies.with(Form::PLAIN)),
        Operation::Opendir(request) => file_system.opendir(caller, request, replies.with(Form::PLAIN)),
        Operation::Readdir(request) => file_system.readdir(caller, request, replies.with(Form::limited(request.size))),
        Operation::Readdirplus(request) => file_system.readdirplus(caller, request, replies.with(Form::limited(request.size))),
        Operation::Releasedir(request) => file_system.releasedir(caller, request, replies.with(Form::PLAIN)),
        Operation::Fsyncdir(request) => file_system.fsyncdir(caller, request, replies.with(Form::PLAIN)),
        Operation::Statfs(request) => file_system.statfs(caller, request, replies.with(Form::PLAIN)),
        Operation::Access(request) => file_system.access(caller, request, replies.with(Form::PLAIN)),
        _ => unreachable!("`is_of_names` lists the operations above"),
    }
}

/// Operations on files, extended attributes and locks.
fn serve_files<F: FileSystem>(
    file_system: &F,
    caller: &Caller,
    replies: &Replies<'_>,
    opcode: Opcode,
    operation: Operation<'_>,
) {
    match operation {
        Operation::Open(request) => file_system.open(caller, request, replies.with(Form::PLAIN)),
        Operation::Create(request) => file_system.create(caller, request, replies.with(Form::PLAIN)),
        Operation::Tmpfile(request) => file_system.tmpfile(caller, request, replies.with(Form::PLAIN)),
        Operation::Read(request) => file_system.read(caller, request, replies.with(Form::limited(request.size))),
        Operation::Write(request) => file_system.write(caller, request, replies.with(Form::limited(request.data.len() as u32))),
        Operation::Flush(request) => file_system.flush(caller, request, replies.with(Form::PLAIN)),
        Operation::Release(request) => file_system.release(caller, request, replies.with(Form::PLAIN)),
        Operation::Fsync(request) => file_system.fsync(caller, request, replies.with(Form::PLAIN)),
        Operation::Setxattr(request) => file_system.setxattr(caller, request, replies.with(Form::PLAIN)),
        Operation::Getxattr(request) => file_system.getxattr(caller, request, replies.with(Form::limited(request.size))),
        Operation::Listxattr(request) => file_system.listxattr(caller, request, replies.with(Form::limited(request.size))),
        Operation::Removexattr(request) => file_system.removexattr(caller, request, replies.with(Form::PLAIN)),
        Operation::Getlk(request) => file_system.getlk(caller, request, replies.with(Form::PLAIN)),
        Operation::Setlk(request) => file_system.setlk(caller, request, replies.with(Form::PLAIN)),
        Operation::Bmap(request) => file_system.bmap(caller, request, replies.with(Form::PLAIN)),
        Operation::Ioctl(request) => file_system.ioctl(caller, request, replies.with(Form::limited(request.output_size))),
        Operation::Poll(request) => file_system.poll(caller, request, replies.with(Form::PLAIN)),
        Operation::Fallocate(request) => file_system.fallocate(caller, request, replies.with(Form::PLAIN)),
        Operation::Lseek(request) => file_system.lseek(caller, request, replies.with(Form::PLAIN)),
        Operation::CopyFileRange(request) => file_system.copy_file_range(
            caller,
            request,
            replies.with(Form { limit: u32::MAX, wide: opcode == Opcode::CopyFileRange64 }),
        ),
        Operation::Syncfs(request) => file_system.syncfs(caller, request, replies.with(Form::PLAIN)),
        _ => unreachable!("the others are served before"),
    }
}
