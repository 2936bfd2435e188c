//! What transactions draw, without a server.

use super::*;
use crate::orders::origin::{Origin, Size};
use crate::orders::settings::Settings;

fn scene(warehouses: i32, size: Size) -> Scene {
    Scene::new(Origin::new(warehouses, size, 1).unwrap(), Settings::new(2))
}

fn place(warehouse: i32) -> Place {
    Place { warehouse, district: 1 }
}

#[test]
fn one_new_order_in_a_hundred_is_rolled_back_and_one_line_is_remote() {
    let scene = scene(3, Size::FULL);
    let mut random = Random::new(1, 0);
    let orders: Vec<_> = (0..20_000).map(|_| new_order::Input::draw(place(2), &scene, &mut random)).collect();
    let rolled_back = orders.iter().filter(|order| order.is_rolled_back).count();
    assert!((150..260).contains(&rolled_back), "{rolled_back} of 20,000");
    let lines: usize = orders.iter().map(|order| order.lines.len()).sum();
    assert!((198_000..202_000).contains(&lines), "ten in the mean: {lines}");
    let remote: Vec<_> =
        orders.iter().flat_map(|order| &order.lines).filter(|line| line.supply_warehouse != 2).collect();
    assert!((1800..2200).contains(&remote.len()), "{}", remote.len());
    assert!(remote.iter().all(|line| [1, 3].contains(&line.supply_warehouse)));
    for order in &orders {
        assert!((5..=15).contains(&order.lines.len()) && (1..=10).contains(&order.district));
        let mut items: Vec<i32> = order.lines.iter().map(|line| line.item).collect();
        items.sort_unstable();
        items.dedup();
        assert_eq!(items.len(), order.lines.len(), "an item comes once");
        let unused = items.iter().filter(|item| **item > 100_000).count();
        assert_eq!(unused, usize::from(order.is_rolled_back));
        assert!(order.lines.is_sorted());
    }
}

#[test]
fn six_of_ten_payments_are_by_last_name_and_fifteen_of_a_hundred_remote() {
    let scene = scene(4, Size::FULL);
    let mut random = Random::new(1, 0);
    let payments: Vec<_> = (0..20_000).map(|_| payment::Input::draw(place(1), &scene, &mut random)).collect();
    let by_name = payments.iter().filter(|payment| matches!(payment.customer.by, By::LastName(_))).count();
    assert!((11_700..12_300).contains(&by_name), "{by_name}");
    let remote = payments.iter().filter(|payment| payment.customer.warehouse != payment.warehouse).count();
    assert!((2800..3200).contains(&remote), "{remote}");
    let is_local = |payment: &payment::Input| payment.customer.warehouse == payment.warehouse;
    let same = payments.iter().filter(|payment| is_local(payment));
    assert!(same.clone().all(|payment| payment.customer.district == payment.district));
    assert!(payments.iter().all(|payment| (100..=500_000).contains(&payment.cents)));
}

#[test]
fn small_districts_are_only_asked_for_what_they_have() {
    let size = Size { items: 100, customers_per_district: 30, orders_per_district: 30 };
    let scene = scene(1, size);
    let mut random = Random::new(1, 0);
    let names: Vec<String> = (0..30).map(last_name).collect();
    for _ in 0..5000 {
        match payment::Input::draw(place(1), &scene, &mut random).customer.by {
            By::Number(number) => assert!((1..=30).contains(&number)),
            By::LastName(name) => assert!(names.contains(&name), "{name}"),
        }
        let order = new_order::Input::draw(place(1), &scene, &mut random);
        assert!(order.lines.iter().all(|line| line.supply_warehouse == 1 && line.item <= 101));
    }
}
