//! Blocks, forks and segments: the units that files and WAL are counted in.

use pgrx::pg_sys;

/// Bytes of a block (BLCKSZ).
pub(crate) const BLOCK_SIZE: usize = pg_sys::BLCKSZ as usize;
/// Blocks of a full segment file (RELSEG_SIZE).
pub(crate) const SEGMENT_BLOCKS: u32 = pg_sys::RELSEG_SIZE;

/// The number of a block within its fork.
pub(crate) type BlockNumber = u32;

/// A fork of a relation, by PostgreSQL's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fork {
    /// The relation's own pages.
    Main,
    /// The free space map.
    FreeSpaceMap,
    /// The visibility map.
    VisibilityMap,
    /// What an unlogged relation is reset to after a crash.
    Init,
}

impl Fork {
    /// Every fork, main first: the order in which they are copied.
    pub(crate) const ALL: [Fork; 4] = [Fork::Main, Fork::FreeSpaceMap, Fork::VisibilityMap, Fork::Init];

    /// The backend's number.
    pub(crate) fn number(self) -> pg_sys::ForkNumber::Type {
        match self {
            Fork::Main => pg_sys::ForkNumber::MAIN_FORKNUM,
            Fork::FreeSpaceMap => pg_sys::ForkNumber::FSM_FORKNUM,
            Fork::VisibilityMap => pg_sys::ForkNumber::VISIBILITYMAP_FORKNUM,
            Fork::Init => pg_sys::ForkNumber::INIT_FORKNUM,
        }
    }

    /// What the fork adds to a file's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Fork::Main => "",
            Fork::FreeSpaceMap => "_fsm",
            Fork::VisibilityMap => "_vm",
            Fork::Init => "_init",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_numbered_as_the_backend_numbers_them() {
        let numbers: Vec<i32> = Fork::ALL.iter().map(|fork| fork.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }
}
