use proptest::prelude::{any, proptest};

use super::{InvalidPolicy, MAX_POLICY_BYTES, Policy, StatementFault};
use crate::principal::Action;

const ALL: [Action; 12] = [
    Action::GetObject,
    Action::PutObject,
    Action::DeleteObject,
    Action::AbortMultipartUpload,
    Action::ListMultipartUploadParts,
    Action::ListBucket,
    Action::ListBucketMultipartUploads,
    Action::GetBucketLocation,
    Action::DeleteBucket,
    Action::GetBucketPolicy,
    Action::PutBucketPolicy,
    Action::DeleteBucketPolicy,
];

/// What a policy for bucket `b` allows, in the order of `ALL`.
fn allowed(document: &str) -> Vec<Action> {
    let policy = Policy::parse(document.as_bytes(), "b").unwrap_or_else(|error| panic!("{document}: {error}"));
    ALL.into_iter().filter(|action| policy.allows(*action)).collect()
}

fn fault(document: &str) -> InvalidPolicy {
    Policy::parse(document.as_bytes(), "b").expect_err("the policy is refused")
}

fn statement(principal: &str, action: &str, resource: &str) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{principal},"Action":{action},"Resource":{resource}}}]}}"#
    )
}

#[test]
fn principals_actions_and_resources_in_all_their_forms() {
    for principal in [r#""*""#, r#"{"AWS":"*"}"#, r#"{"AWS":["*"]}"#] {
        let document = statement(principal, r#""s3:GetObject""#, r#""arn:aws:s3:::b/*""#);
        assert_eq!(allowed(&document), [Action::GetObject], "{principal}");
    }
    let document = statement(r#""*""#, r#"["s3:GetObject","s3:ListBucket"]"#, r#"["arn:aws:s3:::b","arn:aws:s3:::b/*"]"#);
    assert_eq!(allowed(&document), [Action::GetObject, Action::ListBucket]);
    let document = statement(r#""*""#, r#"["S3:getobject"]"#, r#"["arn:aws:s3:::b/*"]"#);
    assert_eq!(allowed(&document), [Action::GetObject], "actions have no case");
}

#[test]
fn several_statements_add_up() {
    let document = r#"{"Version":"2012-10-17","Id":"x","Statement":[
        {"Sid":"1","Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b/*"},
        {"Sid":"2","Effect":"Allow","Principal":{"AWS":"*"},"Action":["s3:GetBucketLocation"],"Resource":["arn:aws:s3:::b"]}]}"#;
    assert_eq!(allowed(document), [Action::PutObject, Action::GetBucketLocation]);
    let single = r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:DeleteObject","Resource":"arn:aws:s3:::b/*"}}"#;
    assert_eq!(allowed(single), [Action::DeleteObject], "one statement needs no list, and no version");
}

#[test]
fn the_policies_that_mc_sets() {
    let download = r#"{"Statement":[
        {"Action":["s3:GetBucketLocation","s3:ListBucket"],"Effect":"Allow","Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::b"]},
        {"Action":["s3:GetObject"],"Effect":"Allow","Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::b/*"]}],"Version":"2012-10-17"}"#;
    assert_eq!(allowed(download), [Action::GetObject, Action::ListBucket, Action::GetBucketLocation]);
    let public = r#"{"Statement":[
        {"Action":["s3:GetBucketLocation","s3:ListBucket","s3:ListBucketMultipartUploads"],"Effect":"Allow","Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::b"]},
        {"Action":["s3:AbortMultipartUpload","s3:DeleteObject","s3:GetObject","s3:ListMultipartUploadParts","s3:PutObject"],"Effect":"Allow","Principal":{"AWS":["*"]},"Resource":["arn:aws:s3:::b/*"]}],"Version":"2012-10-17"}"#;
    assert_eq!(allowed(public), ALL[..8]);
}

#[test]
fn what_would_not_be_enforced_is_refused() {
    let object = r#""arn:aws:s3:::b/*""#;
    let get = r#""s3:GetObject""#;
    let everybody = r#""*""#;
    let deny = statement(everybody, get, object).replace("Allow", "Deny");
    assert!(matches!(fault(&deny), InvalidPolicy::Statement { index: 0, fault: StatementFault::Effect { .. } }));
    for principal in [r#""root""#, r#"{"AWS":"arn:aws:iam::1:root"}"#, r#"{"AWS":["*","x"]}"#, r#"{"AWS":[]}"#] {
        let refused = fault(&statement(principal, get, object));
        assert!(matches!(refused, InvalidPolicy::Statement { fault: StatementFault::Principal, .. }), "{principal}: {refused}");
    }
    for action in [r#""s3:*""#, r#""*""#, r#""s3:GetObjectAcl""#, r#""GetObject""#, r#"["s3:GetObject","s3:Get*"]"#] {
        let refused = fault(&statement(everybody, action, object));
        let is_action = matches!(refused, InvalidPolicy::Statement { fault: StatementFault::Action { .. }, .. });
        assert!(is_action, "{action}: {refused}");
    }
    for resource in ["arn:aws:s3:::*", "arn:aws:s3:::other/*", "arn:aws:s3:::b/x*", "arn:aws:s3:::b/", "b/*", "arn:aws:s3:::bb"]
    {
        let refused = fault(&statement(everybody, get, &format!("{resource:?}")));
        let is_resource = matches!(refused, InvalidPolicy::Statement { fault: StatementFault::Resource { .. }, .. });
        assert!(is_resource, "{resource}: {refused}");
    }
}

#[test]
fn actions_need_a_resource_of_their_kind() {
    for (action, resource) in [("s3:GetObject", "arn:aws:s3:::b"), ("s3:ListBucket", "arn:aws:s3:::b/*")] {
        let refused = fault(&statement(r#""*""#, &format!("{action:?}"), &format!("{resource:?}")));
        let fault = StatementFault::ActionWithoutResource { action: action.to_owned() };
        assert_eq!(refused, InvalidPolicy::Statement { index: 0, fault });
    }
}

#[test]
fn malformed_documents_say_why() {
    let good = statement(r#""*""#, r#""s3:GetObject""#, r#""arn:aws:s3:::b/*""#);
    for extra in [r#""Condition":{},"#, r#""NotAction":"s3:GetObject","#, r#""NotPrincipal":"*","#, r#""Surprise":1,"#] {
        let refused = fault(&good.replace(r#""Effect""#, &format!(r#"{extra}"Effect""#)));
        assert!(matches!(refused, InvalidPolicy::Json { .. }), "{extra}: {refused}");
    }
    for document in ["", "{}", "[]", "null", "\"x\"", "{\"Statement\":\"x\"}", r#"{"Statement":[1]}"#, "{\"Statement\""] {
        assert!(matches!(fault(document), InvalidPolicy::Json { .. }), "{document}");
    }
    assert_eq!(fault(r#"{"Statement":[]}"#), InvalidPolicy::NoStatement);
    let refused = fault(&good.replace("2012-10-17", "2020-01-01"));
    assert_eq!(refused, InvalidPolicy::Version { found: "2020-01-01".to_owned() });
    let no_action = fault(&statement(r#""*""#, "[]", r#""arn:aws:s3:::b/*""#));
    assert_eq!(no_action, InvalidPolicy::Statement { index: 0, fault: StatementFault::NoAction });
    let no_resource = fault(&statement(r#""*""#, r#""s3:GetObject""#, "[]"));
    assert_eq!(no_resource, InvalidPolicy::Statement { index: 0, fault: StatementFault::NoResource });
    let long = format!("{good}{}", " ".repeat(MAX_POLICY_BYTES));
    assert_eq!(fault(&long), InvalidPolicy::TooLong { bytes: long.len() });
    assert_eq!(allowed(&good), [Action::GetObject], "what all of these were made from is good");
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        // Whatever it answers, it answers; a text that is no JSON object grants nothing.
        let outcome = Policy::parse(text.as_bytes(), "b");
        assert!(outcome.is_err() || text.contains("Allow"), "{text:?}");
    }

    #[test]
    fn a_damaged_policy_never_grants_more(at in 0..200usize, byte in any::<u8>()) {
        let mut document = statement(r#""*""#, r#""s3:GetObject""#, r#""arn:aws:s3:::b/*""#).into_bytes();
        let at = at % document.len();
        document[at] = byte;
        if let Ok(policy) = Policy::parse(&document, "b") {
            for action in ALL.into_iter().filter(|action| *action != Action::GetObject) {
                assert!(!policy.allows(action), "{action:?} by {}", String::from_utf8_lossy(&document));
            }
        }
    }
}
