//! Sizes, addresses and identities as types, with checked conversions.
