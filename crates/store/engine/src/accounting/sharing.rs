//! Who refers to a chunk or a map page: nobody, one image, or several; the images asked about, or others.

const TARGET: u32 = 1 << 31;
const RELATED: u32 = 1 << 30;
/// The number of the only other image, counted from 1; all ones: several.
const OTHERS: u32 = RELATED - 1;

/// What an image is to the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// One of those asked about.
    Target,
    /// Another one, by its number. Related: its holding something is reason to count it.
    Other { number: usize, is_related: bool },
}

impl Role {
    /// Another image without any relation.
    pub(super) fn other(number: usize) -> Role {
        Role::Other { number, is_related: false }
    }

    /// The number of another image.
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Role::Target => None,
            Role::Other { number, .. } => u32::try_from(number).ok(),
        }
    }
}

/// The images besides the targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    Nobody,
    One(usize),
    Several,
}

/// Who refers to something, in four bytes: there is one of these for each chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Holders(u32);

impl Holders {
    /// The same with one more image.
    pub(super) fn with(self, role: Role) -> Holders {
        match role {
            Role::Target => Holders(self.0 | TARGET),
            Role::Other { number, is_related } => {
                let number = u32::try_from(number + 1).ok().filter(|number| *number < OTHERS);
                let number = number.expect("a volume table has fewer than 2^30 entries");
                let others = match self.0 & OTHERS {
                    0 => number,
                    same if same == number => number,
                    _ => OTHERS,
                };
                let related = if is_related { RELATED } else { 0 };
                Holders(self.0 & !OTHERS | others | related)
            }
        }
    }

    /// The images of both.
    pub(super) fn and(self, more: Holders) -> Holders {
        let others = match (self.0 & OTHERS, more.0 & OTHERS) {
            (0, others) | (others, 0) => others,
            (one, same) if one == same => one,
            _ => OTHERS,
        };
        Holders((self.0 | more.0) & !OTHERS | others)
    }

    /// Whether a target refers to it.
    pub(super) fn is_target(self) -> bool {
        self.0 & TARGET != 0
    }

    /// Whether a related image refers to it.
    pub(super) fn is_related(self) -> bool {
        self.0 & RELATED != 0
    }

    /// The images besides the targets.
    pub(super) fn others(self) -> Others {
        match self.0 & OTHERS {
            0 => Others::Nobody,
            OTHERS => Others::Several,
            number => Others::One(number as usize - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_add_up_whatever_the_order() {
        let one = Holders::default().with(Role::other(7));
        assert_eq!((one.others(), one.is_target()), (Others::One(7), false));
        assert_eq!(one.with(Role::other(7)), one);
        assert_eq!(one.with(Role::other(0)).others(), Others::Several);
        let both = one.with(Role::Target);
        assert_eq!((both.others(), both.is_target()), (Others::One(7), true));
        assert_eq!(Holders::default().with(Role::Target).with(Role::other(7)), both);
        assert_eq!(Holders::default().with(Role::Target).others(), Others::Nobody);
        let related = both.with(Role::Other { number: 7, is_related: true });
        assert_eq!((related.others(), related.is_related()), (Others::One(7), true));
        assert_eq!(related.with(Role::other(9)).with(Role::other(1)).others(), Others::Several);
    }

    #[test]
    fn holders_of_two_are_the_holders_of_both() {
        let images =
            [Role::Target, Role::other(0), Role::other(5), Role::Other { number: 5, is_related: true }];
        let sets = (0..1 << images.len()).map(|bits: usize| {
            let of = |range: std::ops::Range<usize>| {
                let chosen = range.filter(|at| bits >> at & 1 == 1).map(|at| images[at]);
                chosen.fold(Holders::default(), Holders::with)
            };
            (of(0..4), [0, 1, 2, 3, 4].map(|cut| (of(0..cut), of(cut..4))))
        });
        for (all, parts) in sets {
            for (one, other) in parts {
                assert_eq!((one.and(other), other.and(one)), (all, all));
            }
        }
    }
}
