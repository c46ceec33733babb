//! What the tests share: a cluster with the extension.

use pg_test::{Cluster, ClusterBuilder, Installation};

/// The options every test starts from.
pub(crate) fn builder() -> ClusterBuilder {
    ClusterBuilder::new(&Installation::from_env()).for_tests()
}

/// A started cluster without anything in it.
pub(crate) fn bare_cluster() -> pg_test::Result<Cluster> {
    builder().start()
}
