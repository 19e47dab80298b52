use super::*;
use manager::{Manager, NewImage, Redundancy};

#[tokio::test]
async fn a_shortage_is_told_of_what_lacks_copies_and_of_nothing_else() {
    let env = env::Env::simulated(1);
    let manager = Manager::open_in_memory(&env).await.expect("a manager");
    let new = |name: &str| NewImage { name: name.to_owned(), size_bytes: 1 << 20, copies: 3, parent: None };
    let mut images = Vec::new();
    for name in ["a", "b", "c"] {
        images.push(manager.create_image(new(name)).await.expect("makes it"));
    }
    let told = |images: &[Arc<ImageRecord>]| shortage(&images.iter().collect::<Vec<_>>());
    assert_eq!(told(&images), None);
    Arc::make_mut(&mut images[1]).redundancy = Redundancy { hosts: 1, devices: 2 };
    let fewer = "1 have parts with fewer copies than they shall have (trilith image ls)";
    assert_eq!(told(&images).as_deref(), Some(fewer));
    Arc::make_mut(&mut images[2]).has_losses = true;
    assert_eq!(told(&images).expect("two reasons").matches(';').count(), 1);
}
