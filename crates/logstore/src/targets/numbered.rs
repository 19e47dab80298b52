//! What there is of each device number, found without a lock. Numbers are never given twice, so that few of them are in use, and any may be.

use std::sync::OnceLock;

use types::limits::DEVICE_NUMBERS;

const PAGE: usize = 256;
const PAGES: usize = (DEVICE_NUMBERS as usize).div_ceil(PAGE);

/// Values by their number. They come, and stay where they are.
pub(super) struct Numbered<T> {
    pages: Box<[OnceLock<Page<T>>]>,
}

type Page<T> = Box<[OnceLock<T>]>;

impl<T> Numbered<T> {
    pub fn new() -> Self {
        Numbered { pages: slots(PAGES) }
    }

    pub fn get(&self, number: u32) -> Option<&T> {
        let (page, slot) = place_of(number);
        self.pages.get(page)?.get()?[slot].get()
    }

    /// Puts a value at its number, unless there is one. False: there can be no such number.
    pub fn put(&self, number: u32, value: T) -> bool {
        let (page, slot) = place_of(number);
        let Some(page) = self.pages.get(page) else { return false };
        // A second one is not needed.
        let _ = page.get_or_init(|| slots(PAGE))[slot].set(value);
        true
    }

    /// All values, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().filter_map(OnceLock::get).flatten().filter_map(OnceLock::get)
    }
}

fn place_of(number: u32) -> (usize, usize) {
    (number as usize / PAGE, number as usize % PAGE)
}

fn slots<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_at_every_number_that_a_device_can_have() {
        let values = Numbered::new();
        let numbers = [DEVICE_NUMBERS - 1, 4098, 255, 0];
        numbers.iter().for_each(|number| assert!(values.put(*number, *number)));
        assert!(values.put(255, 7), "what is there stays");
        assert_eq!(values.iter().copied().collect::<Vec<u32>>(), [0, 255, 4098, DEVICE_NUMBERS - 1]);
        assert_eq!((values.get(4098), values.get(4097), values.get(u32::MAX)), (Some(&4098), None, None));
        assert!(!values.put(DEVICE_NUMBERS.next_multiple_of(PAGE as u32), 7));
    }
}
