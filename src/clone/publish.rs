//! Publishing: the unfinished clone becomes a database.
#![deny(unsafe_code)]

use super::options::Options;
use super::{Outcome, log};
use crate::error::Result;
use crate::fault;
use crate::storage::database::{self, Database, Publication};
use crate::storage::xact::{Procedure, with_snapshot};

/// Changes the row and commits. The commit is flushed, and with it every record of the copy before it.
///
/// The source's object lock is still held: no session can have been in the source since before its datfrozenxid is
/// read here, and none can drop a role that the clone's dependencies are about to name.
pub(crate) fn publish(
    procedure: &Procedure,
    options: &Options,
    outcome: &Outcome,
    source: &Database,
) -> Result<()> {
    fault::point("publish.start")?;
    let publication = Publication {
        connection_limit: options.connection_limit,
        allow_connections: options.allow_connections,
        is_template: options.is_template,
    };
    with_snapshot(|| {
        database::publish(outcome.database, source.oid, &options.target, publication)?;
        log::finish(outcome);
        Ok(())
    })?;
    fault::point("publish.before_commit")?;
    procedure.commit_synchronously();
    fault::point("publish.after_commit")
}
