use std::time::Duration;

use env::Env;

use super::Contact;
use crate::limits::CONTACT_LEASE;

#[test]
fn leave_begins_with_an_answer_and_ends_with_the_lease_of_its_question() {
    let env = Env::simulated_after(1, Duration::from_secs(100));
    let contact = Contact::default();
    let began = env.now();
    assert!(!contact.is_held(began), "nobody has answered yet");
    contact.confirm(began);
    assert!(contact.is_held(began + (CONTACT_LEASE - Duration::from_millis(1))));
    assert!(!contact.is_held(began + CONTACT_LEASE));
    // An older question that is answered late takes nothing back.
    contact.confirm(began.saturating_sub(Duration::from_secs(3)));
    assert!(contact.is_held(began + (CONTACT_LEASE - Duration::from_millis(1))));
}
