//! What a node does for its cluster (docs/rfd/0017). Every node follows the manager's state; the rest may be apart.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// One of the things that a node may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It has a vote in the manager.
    Manager,
    /// It serves its devices, objects' and chunks'.
    Target,
    /// It serves S3, and takes a place in the cell.
    Gateway,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Manager, Role::Target, Role::Gateway];

    fn name(self) -> &'static str {
        match self {
            Role::Manager => "manager",
            Role::Target => "target",
            Role::Gateway => "gateway",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No role has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is manager, target or gateway, not `{0}`")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// What one node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles(BTreeSet<Role>);

impl Roles {
    pub fn all() -> Roles {
        Roles::from_iter(Role::ALL)
    }

    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Roles {
        Roles(roles.into_iter().collect())
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name()).collect();
        f.write_str(&names.join(", "))
    }
}
