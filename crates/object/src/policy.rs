//! Bucket policies: what a bucket's owner lets everybody do.
//!
//! The subset that is understood grants to everybody, without conditions, on the whole bucket, so a policy comes down to a
//! set of actions. Whatever would restrict a grant (Deny, NotAction, Condition, other principals, parts of a bucket) is
//! refused when the policy is put: a rule that is stored but not enforced would be worse than none.

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::principal::Action;

/// Longest policy document (S3: 20 KB).
pub const MAX_POLICY_BYTES: usize = manager::limits::MAX_POLICY_BYTES;

/// Versions of the policy language.
const VERSIONS: [&str; 2] = ["2012-10-17", "2008-10-17"];

const ARN_PREFIX: &str = "arn:aws:s3:::";

/// What everybody may do with one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allowed: ActionSet,
}

/// Why a document is no policy of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    #[error("it has {bytes} bytes, at most {MAX_POLICY_BYTES} are allowed")]
    TooLong { bytes: usize },
    #[error("it is not the JSON that a policy is: {reason}")]
    Json { reason: String },
    #[error("version {found:?} is not one of {VERSIONS:?}")]
    Version { found: String },
    #[error("it has no statement")]
    NoStatement,
    #[error("statement {index}: {fault}")]
    Statement { index: usize, fault: StatementFault },
}

/// What is wrong with a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementFault {
    #[error("effect {found:?} is not supported, only \"Allow\" is")]
    Effect { found: String },
    #[error("only the principal \"*\" is supported, as \"*\", {{\"AWS\": \"*\"}} or {{\"AWS\": [\"*\"]}}")]
    Principal,
    #[error("action {found:?} is not supported")]
    Action { found: String },
    #[error("no action is named")]
    NoAction,
    #[error("resource {found:?} is neither {ARN_PREFIX}{bucket} nor {ARN_PREFIX}{bucket}/*")]
    Resource { found: String, bucket: String },
    #[error("no resource is named")]
    NoResource,
    #[error("action {action:?} does not apply to any resource of the statement")]
    ActionWithoutResource { action: String },
}

/// Actions that a policy can grant, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ActionSet(u16);

/// What an action is done to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Bucket,
    Objects,
}

/// The actions that a policy can grant.
const GRANTABLE: [(&str, Action, Scope); 8] = [
    ("s3:GetObject", Action::GetObject, Scope::Objects),
    ("s3:PutObject", Action::PutObject, Scope::Objects),
    ("s3:DeleteObject", Action::DeleteObject, Scope::Objects),
    ("s3:AbortMultipartUpload", Action::AbortMultipartUpload, Scope::Objects),
    ("s3:ListMultipartUploadParts", Action::ListMultipartUploadParts, Scope::Objects),
    ("s3:ListBucket", Action::ListBucket, Scope::Bucket),
    ("s3:ListBucketMultipartUploads", Action::ListBucketMultipartUploads, Scope::Bucket),
    ("s3:GetBucketLocation", Action::GetBucketLocation, Scope::Bucket),
];

impl Policy {
    /// Reads a policy document for this bucket.
    pub fn parse(document: &[u8], bucket: &str) -> Result<Policy, InvalidPolicy> {
        if document.len() > MAX_POLICY_BYTES {
            return Err(InvalidPolicy::TooLong { bytes: document.len() });
        }
        let document: Document =
            serde_json::from_slice(document).map_err(|error| InvalidPolicy::Json { reason: error.to_string() })?;
        if let Some(found) = document.version.filter(|version| !VERSIONS.contains(&version.as_str())) {
            return Err(InvalidPolicy::Version { found });
        }
        if document.statement.0.is_empty() {
            return Err(InvalidPolicy::NoStatement);
        }
        let mut policy = Policy::default();
        for (index, statement) in document.statement.0.iter().enumerate() {
            let allowed = allowed_by(statement, bucket).map_err(|fault| InvalidPolicy::Statement { index, fault })?;
            policy.allowed.0 |= allowed.0;
        }
        Ok(policy)
    }

    /// Whether everybody may do this.
    pub fn allows(&self, action: Action) -> bool {
        self.allowed.contains(action)
    }
}

impl ActionSet {
    fn insert(&mut self, action: Action) {
        self.0 |= 1 << action as u16;
    }

    fn contains(self, action: Action) -> bool {
        self.0 & (1 << action as u16) != 0
    }
}

/// What one statement allows. Since resources are whole, an action is granted as soon as one resource is in its scope.
fn allowed_by(statement: &Statement, bucket: &str) -> Result<ActionSet, StatementFault> {
    if statement.effect != "Allow" {
        return Err(StatementFault::Effect { found: statement.effect.clone() });
    }
    if !statement.principal.is_everybody() {
        return Err(StatementFault::Principal);
    }
    if statement.action.0.is_empty() {
        return Err(StatementFault::NoAction);
    }
    if statement.resource.0.is_empty() {
        return Err(StatementFault::NoResource);
    }
    let mut scopes = Vec::with_capacity(statement.resource.0.len());
    for resource in &statement.resource.0 {
        scopes.push(scope_of(resource, bucket)?);
    }
    let mut allowed = ActionSet::default();
    for name in &statement.action.0 {
        let known = GRANTABLE.iter().find(|(known, _, _)| known.eq_ignore_ascii_case(name));
        let (_, action, scope) = known.ok_or_else(|| StatementFault::Action { found: name.clone() })?;
        if !scopes.contains(scope) {
            return Err(StatementFault::ActionWithoutResource { action: name.clone() });
        }
        allowed.insert(*action);
    }
    Ok(allowed)
}

fn scope_of(resource: &str, bucket: &str) -> Result<Scope, StatementFault> {
    let rest = resource.strip_prefix(ARN_PREFIX).and_then(|name| name.strip_prefix(bucket));
    match rest {
        Some("") => Ok(Scope::Bucket),
        Some("/*") => Ok(Scope::Objects),
        _ => Err(StatementFault::Resource { found: resource.to_owned(), bucket: bucket.to_owned() }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Document {
    version: Option<String>,
    #[serde(rename = "Id")]
    _id: Option<String>,
    statement: OneOrMany<Statement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Statement {
    #[serde(rename = "Sid")]
    _sid: Option<String>,
    effect: String,
    principal: PolicyPrincipal,
    action: OneOrMany<String>,
    resource: OneOrMany<String>,
}

/// `"*"`, or who by kind of account.
#[derive(Deserialize)]
#[serde(untagged)]
enum PolicyPrincipal {
    Everybody(String),
    Accounts(Accounts),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accounts {
    #[serde(rename = "AWS")]
    aws: OneOrMany<String>,
}

impl PolicyPrincipal {
    fn is_everybody(&self) -> bool {
        match self {
            PolicyPrincipal::Everybody(name) => name == "*",
            PolicyPrincipal::Accounts(accounts) => accounts.aws.0 == ["*"],
        }
    }
}

/// JSON that is a value or a list of such values. Not serde's untagged enum: that loses what is wrong inside a value.
struct OneOrMany<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrManyVisitor(std::marker::PhantomData))
    }
}

struct OneOrManyVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrManyVisitor<T> {
    type Value = OneOrMany<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let one = T::deserialize(serde::de::value::StrDeserializer::<E>::new(text))?;
        Ok(OneOrMany(vec![one]))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let one = T::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(OneOrMany(vec![one]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut many = Vec::new();
        while let Some(one) = list.next_element()? {
            many.push(one);
        }
        Ok(OneOrMany(many))
    }
}

#[cfg(test)]
mod tests;
