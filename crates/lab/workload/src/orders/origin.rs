//! What a database was loaded with. It stands in the database, so that no run has to be told.

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::random::{NonUniform, Random};

/// Districts of a warehouse.
pub const DISTRICTS: i32 = 10;
/// There are only so many last names.
pub(super) const NAMES_MAX: i32 = 1000;
/// Orders have different items, up to fifteen of them, drawn at random: there must be enough to draw from.
const ITEMS_MIN: i32 = 100;

/// Rows of a warehouse. Anything but [`Size::FULL`] is for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Size {
    /// Items, and so many rows of stock a warehouse.
    pub items: i32,
    /// Customers of a district.
    pub customers_per_district: i32,
    /// Orders of a district to begin with.
    pub orders_per_district: i32,
}

impl Size {
    /// The rows that a warehouse has.
    pub const FULL: Size = Size { items: 100_000, customers_per_district: 3000, orders_per_district: 3000 };

    /// How many last names there are in a district.
    pub(super) fn names(&self) -> i32 {
        self.customers_per_district.min(NAMES_MAX)
    }

    /// Orders of a district that are delivered to begin with: seven of ten.
    pub(super) fn delivered(&self) -> i32 {
        self.orders_per_district * 7 / 10
    }

    pub(super) fn check(&self) -> Result<()> {
        let Size { items, customers_per_district: customers, orders_per_district: orders } = *self;
        let is_possible = items >= ITEMS_MIN && customers >= 1 && orders >= 10;
        if is_possible {
            return Ok(());
        }
        let least = format!("at least {ITEMS_MIN} items, 1 customer, 10 orders");
        Err(Error::environment(format!("{items} items, {customers} customers, {orders} orders: {least}")))
    }
}

/// What was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Origin {
    /// How many.
    pub warehouses: i32,
    /// Rows of each.
    pub size: Size,
    /// Of all that was drawn.
    pub seed: i64,
    /// The constant with which last names were drawn: a run's has a certain distance from it.
    pub name_constant: i32,
}

impl Origin {
    pub(super) fn new(warehouses: i32, size: Size, seed: u64) -> Result<Origin> {
        size.check()?;
        if warehouses < 1 {
            return Err(Error::environment(format!("{warehouses} warehouses: at least one")));
        }
        let name_constant = Random::new(seed, 0).between(0, NAME_A);
        Ok(Origin { warehouses, size, seed: seed as i64, name_constant })
    }

    /// Of the database of this session.
    ///
    /// # Errors
    /// When nothing was loaded there.
    pub fn read(session: &mut Session) -> Result<Origin> {
        let rows = session
            .run("SELECT warehouses, items, customers, orders, seed, name_constant FROM lab_orders.origin")?;
        let fields: Option<Vec<i64>> =
            rows.iter().flatten().map(|field| field.as_deref().and_then(|text| text.parse().ok())).collect();
        let damaged = || Error::content("lab_orders.origin is not as the load wrote it");
        let [warehouses, items, customers, orders, seed, name_constant] =
            <[i64; 6]>::try_from(fields.ok_or_else(damaged)?).map_err(|_| damaged())?;
        let small = |field: i64| i32::try_from(field).map_err(|_| damaged());
        let size = Size {
            items: small(items)?,
            customers_per_district: small(customers)?,
            orders_per_district: small(orders)?,
        };
        size.check()?;
        Ok(Origin { warehouses: small(warehouses)?, size, seed, name_constant: small(name_constant)? })
    }

    pub(super) fn insert_statement(&self) -> String {
        let Size { items, customers_per_district, orders_per_district } = self.size;
        format!(
            "INSERT INTO lab_orders.origin VALUES ({}, {items}, {customers_per_district}, \
             {orders_per_district}, {}, {}, {})",
            self.warehouses,
            self.size.delivered(),
            self.seed,
            self.name_constant
        )
    }
}

/// The preference for last names; also the largest of its constants.
const NAME_A: i32 = 255;

/// What is drawn with a preference, in a load or a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preferences {
    /// The number of a last name.
    pub(super) name: NonUniform,
    pub(super) customer: NonUniform,
    pub(super) item: NonUniform,
}

impl Preferences {
    /// While loading.
    pub(super) fn of_load(origin: &Origin) -> Preferences {
        Preferences::with(origin, [origin.name_constant, 0, 0])
    }

    /// In a run.
    pub(super) fn of_run(origin: &Origin, seed: u64) -> Preferences {
        let mut random = Random::new(seed, RUN_STREAM);
        let distance = loop {
            let distance = random.between(65, 119);
            if distance != 96 && distance != 112 {
                break distance;
            }
        };
        let above = origin.name_constant + distance;
        let name = if above <= NAME_A { above } else { origin.name_constant - distance };
        Preferences::with(origin, [name, random.between(0, 1023), random.between(0, 8191)])
    }

    fn with(origin: &Origin, [name, customer, item]: [i32; 3]) -> Preferences {
        let size = origin.size;
        Preferences {
            name: NonUniform { a: NAME_A, low: 0, high: size.names() - 1, c: name },
            customer: NonUniform { a: 1023, low: 1, high: size.customers_per_district, c: customer },
            item: NonUniform { a: 8191, low: 1, high: size.items, c: item },
        }
    }
}

/// The stream of a run's constants: no client has this number.
const RUN_STREAM: u64 = u64::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_load_and_run_are_as_far_apart_as_the_rule_wants() {
        for seed in 0..500 {
            let origin = Origin::new(1, Size::FULL, seed).unwrap();
            let run = Preferences::of_run(&origin, seed + 1);
            let load = Preferences::of_load(&origin);
            let distance = (run.name.c - load.name.c).abs();
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "{distance}");
            assert!((0..=255).contains(&run.name.c), "{}", run.name.c);
            assert!((0..=1023).contains(&run.customer.c) && (0..=8191).contains(&run.item.c));
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        assert!(Size::FULL.check().is_ok());
        assert_eq!((Size::FULL.names(), Size::FULL.delivered()), (1000, 2100));
        for size in [Size { items: 99, ..Size::FULL }, Size { orders_per_district: 9, ..Size::FULL }] {
            assert!(Origin::new(1, size, 0).is_err());
        }
        assert!(Origin::new(0, Size::FULL, 0).is_err());
    }
}
