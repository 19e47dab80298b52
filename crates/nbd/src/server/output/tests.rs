use super::*;
use futures_util::task::noop_waker;
use proptest::prelude::*;

/// Takes up to `most` bytes at a time.
struct Narrow {
    most: usize,
    taken: Vec<u8>,
}

impl AsyncWrite for Narrow {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = bytes.len().min(self.most);
        self.taken.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, _: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let before = self.taken.len();
        for slice in slices {
            let room = self.most - (self.taken.len() - before);
            self.taken.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Poll::Ready(Ok(self.taken.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[derive(Clone, Debug)]
enum Add {
    Head(u8),
    Data(usize),
    Zeros(usize),
}

fn any_add() -> impl Strategy<Value = Add> {
    prop_oneof![any::<u8>().prop_map(Add::Head), (1..3000_usize).prop_map(Add::Data), (1..200_000_usize).prop_map(Add::Zeros),]
}

proptest! {
    /// Whatever the socket takes at a time, it gets all bytes in order, and each byte of data is freed once.
    #[test]
    fn all_bytes_in_order(adds in proptest::collection::vec(any_add(), 0..200), most in 1..100_000_usize) {
        let (mut output, mut expected) = (Output::default(), Vec::new());
        let (mut held, mut freed) = (0, 0);
        for (index, add) in adds.iter().enumerate() {
            match add {
                Add::Head(byte) => {
                    output.head(|out| out.extend_from_slice(&[*byte; 20]));
                    expected.extend([*byte; 20]);
                }
                Add::Data(length) => {
                    let data = vec![index as u8; *length];
                    expected.extend(&data);
                    held += length;
                    freed += output.data(data.into());
                }
                Add::Zeros(length) => {
                    output.zeros(*length);
                    expected.resize(expected.len() + length, 0);
                }
            }
        }
        let waker = noop_waker();
        let mut socket = Narrow { most, taken: Vec::new() };
        while !output.is_empty() {
            let written = output.poll_write(Pin::new(&mut socket), &mut Context::from_waker(&waker));
            let Poll::Ready(Ok(written)) = written else { panic!("{written:?}") };
            freed += written.freed_bytes;
        }
        prop_assert!(socket.taken == expected);
        prop_assert_eq!(held, freed);
    }
}

#[test]
fn what_is_given_up_is_counted() {
    let mut output = Output::default();
    output.head(|out| out.extend_from_slice(b"head"));
    assert_eq!(output.data(vec![1; 5000].into()), 0);
    output.zeros(7000);
    assert_eq!(output.data(vec![1; 10].into()), 10, "a little data is copied");
    assert_eq!(output.waiting_bytes(), 4 + 5000 + 7000 + 10);
    assert_eq!(output.clear(), 5000);
    assert!(output.is_empty());
}
