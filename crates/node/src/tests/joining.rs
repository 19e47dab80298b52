//! Nodes that a cluster does not take: they are told why, and nothing has changed.

use super::cluster::{Cluster, address};
use super::service::simulate;
use crate::{Applicant, inquire};
use net::{Identity, RemoteCaller};
use std::sync::Arc;
use types::{ClusterId, NodeIdentity};

impl Cluster {
    /// What node 0 says of a node that would like to take part.
    async fn judge(&self, change: impl FnOnce(&mut Applicant)) -> Result<(), String> {
        let identity = NodeIdentity([77; 16]);
        let own = Identity { cluster: ClusterId([9; 16]), node: identity };
        let caller = RemoteCaller::new(&self.env, Arc::new(self.network.clone()), &address(0), own);
        let mut applicant = Applicant::new(&self.env, identity, "node-7", &address(7));
        change(&mut applicant);
        inquire(&self.env, &caller, applicant.question()).await.unwrap()
    }
}

#[test]
fn who_does_not_fit_is_told_why() {
    simulate(async {
        let cluster = Cluster::start(43).await;
        cluster.judge(|_| {}).await.unwrap();
        let early = cluster.judge(|applicant| applicant.wall_clock_ms += 180_000).await.unwrap_err();
        assert!(early.contains("clock is 180 seconds ahead of"), "{early}");
        let late = cluster.judge(|applicant| applicant.wall_clock_ms -= 7_200_000).await.unwrap_err();
        assert!(late.contains("clock is 7200 seconds behind"), "{late}");
        let member = NodeIdentity([1; 16]);
        let back = |applicant: &mut Applicant| {
            (applicant.identity, applicant.name, applicant.address) = (member, "node-0".to_owned(), address(0));
            applicant.wall_clock_ms -= 7_200_000;
        };
        cluster.judge(back).await.expect("it takes part already");
        let named = cluster.judge(|applicant| applicant.name = "node-2".to_owned()).await.unwrap_err();
        assert!(named.contains("has the name node-2 already"), "{named}");
        let manager = cluster.machines[0].node.as_ref().unwrap().manager();
        manager.raise_format_version(format::FORMAT_VERSION + 1).await.unwrap();
        let old = cluster.judge(|_| {}).await.unwrap_err();
        assert!(old.contains("install a newer one"), "{old}");
        assert_eq!(manager.snapshot().nodes().count(), 3, "nothing has changed");
    });
}
