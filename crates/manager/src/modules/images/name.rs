//! Names of images and of their snapshots.
//!
//! `IMAGE@SNAPSHOT` names a snapshot in commands, so neither name has `@`. Slashes are for people: they order images as folders do.

use super::limits::MAX_IMAGE_NAME_BYTES;

/// Why a text names no image and no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidImageName {
    #[error("a name of an image or a snapshot has 1 to {MAX_IMAGE_NAME_BYTES} bytes, not {found}")]
    Length { found: usize },
    #[error("a name of an image or a snapshot has letters, digits, '.', '_', '/' and '-' only, not {found:?}")]
    Character { found: char },
    #[error("a name of an image or a snapshot does not begin with '.' or '/'")]
    Start,
    #[error("a name of an image or a snapshot does not have \"//\"")]
    Slashes,
}

/// Checks a name of an image or a snapshot.
pub fn check_image_name(name: &str) -> Result<(), InvalidImageName> {
    if !(1..=MAX_IMAGE_NAME_BYTES).contains(&name.len()) {
        return Err(InvalidImageName::Length { found: name.len() });
    }
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '/' | '-');
    if let Some(found) = name.chars().find(|character| !is_allowed(*character)) {
        return Err(InvalidImageName::Character { found });
    }
    if name.starts_with(['.', '/']) {
        return Err(InvalidImageName::Start);
    }
    if name.contains("//") {
        return Err(InvalidImageName::Slashes);
    }
    Ok(())
}
