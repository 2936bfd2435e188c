//! Whether the drives of a pool that stopped take writes again: asked before it is closed and opened anew,
//! which its readers would notice.

use std::rc::Rc;

use ashlar_drive::Drive;
use ashlar_format::superblock::DriveState;

use crate::{Error, ErrorKind, Pool, Result};

impl Pool {
    /// Writes the owner block once more to the drives, after a look whether it still is ours: it tells
    /// nothing new to anybody. Those that were given up count, too: a stop may be why they were. Fails while
    /// fewer drives take it than the pool needs.
    pub async fn try_writing(&self) -> Result<()> {
        self.check_owner().await?;
        let owner = self.owner_now();
        let (all, drives) = self.drives_to_try();
        let (mut written, mut last) = (0, None);
        for drive in drives {
            match drive.write_owner(self.key(), &owner).await {
                Ok(()) => written += 1,
                Err(error) => last = Some(Error::from(error)),
            }
        }
        if written > 0 && written + self.parity_columns() >= all {
            return Ok(());
        }
        let too_few = || Error::new(ErrorKind::Medium, format!("{written} of {all} drives take writes"));
        Err(last.unwrap_or_else(too_few))
    }

    /// How many drives the pool has, and those that are open.
    fn drives_to_try(&self) -> (usize, Vec<Rc<Drive>>) {
        let drives = self.inner.drives.borrow();
        let present = drives.iter().filter(|known| known.state != DriveState::Gone);
        let open = present.clone().filter_map(|known| known.drive.clone()).collect();
        (present.count(), open)
    }
}
