//! Operation codes of requests, and codes of notifications.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident: $repr:ty { $($variant:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($repr)]
        pub enum $name { $($variant = $code,)* }

        impl $name {
            /// All of them, in the order of their codes.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// What the wire carries.
            pub const fn code(self) -> $repr {
                self as $repr
            }

            /// None where this crate does not know the code.
            pub fn from_code(code: $repr) -> Option<Self> {
                match code {
                    $($code => Some($name::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// What a request asks for (`enum fuse_opcode`). Codes that are missing here are answered with ENOSYS: the DAX mappings
    /// (48, 49), which are never negotiated, and what kernels add later.
    Opcode: u32 {
        Lookup = 1,
        Forget = 2,
        Getattr = 3,
        Setattr = 4,
        Readlink = 5,
        Symlink = 6,
        Mknod = 8,
        Mkdir = 9,
        Unlink = 10,
        Rmdir = 11,
        Rename = 12,
        Link = 13,
        Open = 14,
        Read = 15,
        Write = 16,
        Statfs = 17,
        Release = 18,
        Fsync = 20,
        Setxattr = 21,
        Getxattr = 22,
        Listxattr = 23,
        Removexattr = 24,
        Flush = 25,
        Init = 26,
        Opendir = 27,
        Readdir = 28,
        Releasedir = 29,
        Fsyncdir = 30,
        Getlk = 31,
        Setlk = 32,
        Setlkw = 33,
        Access = 34,
        Create = 35,
        Interrupt = 36,
        Bmap = 37,
        Destroy = 38,
        Ioctl = 39,
        Poll = 40,
        NotifyReply = 41,
        BatchForget = 42,
        Fallocate = 43,
        Readdirplus = 44,
        Rename2 = 45,
        Lseek = 46,
        CopyFileRange = 47,
        Syncfs = 50,
        Tmpfile = 51,
        Statx = 52,
        CopyFileRange64 = 53,
    }
}

codes! {
    /// What a notification tells the kernel (`enum fuse_notify_code`).
    NotifyCode: i32 {
        InvalInode = 2,
        InvalEntry = 3,
        Store = 4,
        Retrieve = 5,
        Delete = 6,
        Resend = 7,
    }
}
