//! Extended attributes.

use std::collections::BTreeSet;

use super::super::attributes::SET_GID;
use super::super::command::XattrHow;
use super::super::limits::{MAX_XATTR_BYTES, MAX_XATTR_NAME_BYTES};
use super::super::reply::{MetaError, Reply};
use super::{At, Machine};
use crate::ids::Ino;

/// Extended attributes that an inode begins with.
pub fn check_new_xattrs(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), MetaError> {
    let bytes: usize = xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
    let distinct: BTreeSet<&[u8]> = xattrs.iter().map(|(name, _)| name.as_slice()).collect();
    let are_names = distinct.len() == xattrs.len() && distinct.into_iter().all(is_name);
    match bytes <= MAX_XATTR_BYTES {
        _ if !are_names => Err(MetaError::Invalid),
        true => Ok(()),
        false => Err(MetaError::XattrRoom),
    }
}

fn is_name(name: &[u8]) -> bool {
    (1..=MAX_XATTR_NAME_BYTES).contains(&name.len()) && !name.contains(&0)
}

impl Machine {
    pub(super) fn set_xattr(
        &mut self,
        at: At,
        ino: Ino,
        (name, value): (&[u8], &[u8]),
        how: XattrHow,
        clears_set_gid: bool,
    ) -> Reply {
        if !is_name(name) {
            return Err(MetaError::Invalid);
        }
        let inode = self.inode_mut(ino)?;
        let xattrs = inode.rare.as_ref().map_or(&[][..], |rare| &rare.xattrs);
        let found = xattrs.binary_search_by(|(other, _)| other.as_ref().cmp(name));
        match (how, found) {
            (XattrHow::Create, Ok(_)) => return Err(MetaError::XattrExists),
            (XattrHow::Replace, Err(_)) => return Err(MetaError::NoXattr),
            _ => {}
        }
        let others = xattrs.iter().filter(|(other, _)| **other != *name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() > MAX_XATTR_BYTES {
            return Err(MetaError::XattrRoom);
        }
        let xattrs = &mut inode.rare.get_or_insert_default().xattrs;
        match found {
            Ok(at) => xattrs[at].1 = value.into(),
            Err(at) => xattrs.insert(at, (name.into(), value.into())),
        }
        if clears_set_gid {
            inode.mode &= !SET_GID;
        }
        inode.changed(at.now);
        self.answer(ino)
    }

    pub(super) fn remove_xattr(&mut self, at: At, ino: Ino, name: &[u8]) -> Reply {
        let inode = self.inode_mut(ino)?;
        let xattrs = inode.rare.as_mut().map(|rare| &mut rare.xattrs).ok_or(MetaError::NoXattr)?;
        let found = xattrs.binary_search_by(|(other, _)| other.as_ref().cmp(name)).map_err(|_| MetaError::NoXattr)?;
        xattrs.remove(found);
        inode.changed(at.now);
        self.answer(ino)
    }
}
