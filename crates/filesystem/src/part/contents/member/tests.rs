use super::*;

/// Caught: the first of the others was always taken. Two nodes whose devices fail handed over to each other, and the third never served.
#[test]
fn each_node_that_could_serve_is_asked_some_time() {
    let env = Env::simulated(1);
    assert_eq!(one_of::<u32>(&env, Vec::new()), None);
    let asked: BTreeSet<u32> = (0..64).filter_map(|_| one_of(&env, vec![1, 2, 3])).collect();
    assert_eq!(asked, [1, 2, 3].into());
}
