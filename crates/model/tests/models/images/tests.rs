use super::explore::{assert_broken, assert_sound, soaking};
use super::{Images, Wrong};

fn model(wrong: Wrong) -> Images {
    Images { tokens: 2, writes: 2, epochs: 2, wrong }
}

#[test]
fn what_was_acknowledged_stays() {
    let bounds =
        if soaking() { Images { tokens: 3, writes: 3, epochs: 3, wrong: Wrong::Nothing } } else { model(Wrong::Nothing) };
    assert_sound("images", bounds);
}

#[test]
fn each_rule_is_needed() {
    let broken = [
        (Wrong::RefusesNoToken, "not older"),
        (Wrong::SendsAgainInTheSameSession, "durable"),
        (Wrong::AdmitsFormerTokens, "not older"),
        (Wrong::WaitsForNoTenure, "not older"),
        (Wrong::ComparesNothing, "not older"),
        (Wrong::AcknowledgesBeforeTheRecord, "durable"),
        (Wrong::AcknowledgesBeforeTheHeaders, "durable"),
        (Wrong::ObeysFormerHolders, "not older"),
        (Wrong::PutsInUncompared, "durable"),
    ];
    for (wrong, property) in broken {
        assert_broken(&format!("images, {wrong:?}"), model(wrong), property);
    }
}
