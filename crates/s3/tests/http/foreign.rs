//! What other test suites, clients and reports of faults expect of S3, and what is answered here.

mod answers;
mod checksums;
mod headers;
