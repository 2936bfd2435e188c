//! On what terms a volume is made: what is kept for it, what it may take, and who goes first.
//!
//! How fast it may be is set later: nobody knows it of a volume that hosts have not used.

use ashlar_units::VolumeId;

use crate::Result;
use crate::allowance::Allowance;
use crate::notebook::NoteBatch;
use crate::precedence::Precedence;

/// The terms of a volume to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// What it may take, and what is kept for it.
    pub allowance: Allowance,
    /// Who goes before it, and before whom it goes.
    pub precedence: Precedence,
}

impl From<Allowance> for Terms {
    fn from(allowance: Allowance) -> Terms {
        Terms { allowance, ..Terms::default() }
    }
}

impl Terms {
    /// Refuses what no volume can have.
    pub(crate) fn check(self, name: &str) -> Result<()> {
        self.allowance.check(name)?;
        self.precedence.check(name)
    }

    /// The notes of a volume made on them, with those of a batch.
    pub(crate) fn note(self, id: VolumeId, batch: NoteBatch) -> NoteBatch {
        let batch = self.allowance.note(Allowance::default(), id, batch);
        self.precedence.note(Precedence::default(), id, batch)
    }
}
