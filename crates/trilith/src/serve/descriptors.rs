//! How many files and connections the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. A shell and systemd give 1,024, for the sake of programs that use select(2); this is none, and takes
/// thousands of connections, beside which the logs and the state need files of their own.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "raised the limit of open files"),
        Err(error) => tracing::warn!(?current, ?maximum, %error, "the limit of open files stays low"),
    }
}

#[cfg(test)]
mod tests {
    use super::raise_limit;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // Enough for the tests beside this one.
        let low = maximum.map_or(4_096, |most| most - 1).min(4_096);
        setrlimit(Resource::Nofile, Rlimit { current: Some(low), maximum }).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
