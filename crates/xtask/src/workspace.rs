//! The workspace as cargo sees it: our crates, their manifests and the edges between them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The crate of the fuzz targets, which is linted and not built: it lies beside `crates/` and has neither library nor `main`.
pub const FUZZ_CRATE: &str = "fuzz";
/// What the fuzz targets are built with, and without which cargo passes them over.
pub const FUZZ_FEATURE: &str = "fuzzing";

/// The repository and the packages that cargo resolved for it.
pub struct Workspace {
    pub root: PathBuf,
    pub members: Vec<Member>,
    pub third_party: Vec<ThirdParty>,
}

/// One crate of ours.
pub struct Member {
    pub name: String,
    pub folder: PathBuf,
    /// Workspace crates that it needs to be built (normal and build dependencies).
    pub uses: BTreeSet<String>,
    /// Workspace crates that only its tests need.
    pub tests_use: BTreeSet<String>,
    /// Names of its integration tests.
    pub tests: Vec<String>,
}

impl Member {
    /// Its manifest's path from the repository's root.
    pub fn manifest(&self) -> String {
        let top = if self.name == FUZZ_CRATE { "" } else { "crates/" };
        format!("{top}{}/Cargo.toml", self.name)
    }
}

/// One crate that comes from outside.
pub struct ThirdParty {
    pub name: String,
    pub version: String,
    /// The SPDX expression; empty where the crate names none.
    pub licence: String,
    /// Whether it comes from the crates registry rather than from git or a path.
    pub from_registry: bool,
}

impl Workspace {
    pub fn load() -> Result<Self> {
        let root = root()?;
        let output = Command::new(cargo())
            .args(["metadata", "--format-version", "1", "--quiet"])
            .current_dir(&root)
            .output()
            .context("cannot run `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout).context("`cargo metadata` wrote unknown JSON")?;
        Ok(Self::from_metadata(root, metadata))
    }

    fn from_metadata(root: PathBuf, metadata: Metadata) -> Self {
        let ids: BTreeSet<String> = metadata.workspace_members.into_iter().collect();
        let (ours, others): (Vec<Package>, Vec<Package>) = metadata.packages.into_iter().partition(|p| ids.contains(&p.id));
        let names: BTreeSet<String> = ours.iter().map(|p| p.name.clone()).collect();
        let mut members: Vec<Member> = ours.into_iter().map(|package| package.into_member(&names)).collect();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let third_party = others.into_iter().map(Package::into_third_party).collect();
        Self { root, members, third_party }
    }
}

/// The folder that holds the root manifest.
pub fn root() -> Result<PathBuf> {
    let manifest_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest_folder.ancestors().nth(2).context("xtask does not lie in crates/xtask")?;
    Ok(root.to_path_buf())
}

/// The cargo that started us, so that a toolchain chosen by the caller stays chosen.
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Absent for a normal dependency, else "dev" or "build".
    kind: Option<String>,
    /// Set for dependencies inside the workspace.
    path: Option<PathBuf>,
}

impl Package {
    fn into_member(self, ours: &BTreeSet<String>) -> Member {
        let mut uses = BTreeSet::new();
        let mut tests_use = BTreeSet::new();
        for dependency in self.dependencies {
            if dependency.path.is_none() || !ours.contains(&dependency.name) {
                continue;
            }
            match dependency.kind.as_deref() {
                Some("dev") => tests_use.insert(dependency.name),
                _ => uses.insert(dependency.name),
            };
        }
        let folder = self.manifest_path.parent().map(Path::to_path_buf).unwrap_or_default();
        let tests = self.targets.into_iter().filter(|target| target.kind.iter().any(|kind| kind == "test"));
        Member { name: self.name, folder, uses, tests_use, tests: tests.map(|target| target.name).collect() }
    }

    fn into_third_party(self) -> ThirdParty {
        ThirdParty {
            name: self.name,
            version: self.version,
            licence: self.license.unwrap_or_default(),
            from_registry: self.source.is_some_and(|source| source.starts_with("registry+") || source.starts_with("sparse+")),
        }
    }
}
