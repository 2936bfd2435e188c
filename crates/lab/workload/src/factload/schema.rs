//! The tables.

use super::origin::Shape;

/// All but the sources. The schema's name begins with `lab_`: nobody's own tables are ever in the way, or
/// dropped.
///
/// The facts have no index: nothing but what a load brings in is written, and it could hide that a batch is
/// there twice. Nor are they vacuumed meanwhile, which would read and write them again at times of its own.
pub(super) const TABLES: &str = "
CREATE SCHEMA lab_facts;
CREATE TABLE lab_facts.origin (
    tables smallint NOT NULL, files smallint NOT NULL, rows_per_source bigint NOT NULL,
    rows_per_batch int NOT NULL, compression float8 NOT NULL, seed bigint NOT NULL);
CREATE SEQUENCE lab_facts.run AS int;
CREATE TABLE lab_facts.day (
    date date NOT NULL, day int NOT NULL, month smallint NOT NULL, quarter smallint NOT NULL,
    year smallint NOT NULL);
CREATE TABLE lab_facts.product (
    code text NOT NULL, product int NOT NULL, category smallint NOT NULL, cost_cents int NOT NULL,
    weight_grams int NOT NULL);
CREATE TABLE lab_facts.customer (
    code text NOT NULL, customer int NOT NULL, region smallint NOT NULL, segment smallint NOT NULL,
    discount_permille int NOT NULL);
CREATE TABLE lab_facts.region (region smallint NOT NULL, tax_permille int NOT NULL);
CREATE TABLE lab_facts.currency (code text NOT NULL, currency smallint NOT NULL, rate_micros int NOT NULL);
CREATE TABLE lab_facts.batch (
    source smallint NOT NULL, batch int NOT NULL, rows bigint NOT NULL, checksums bigint NOT NULL,
    seals bigint NOT NULL, gross bigint NOT NULL, discount bigint NOT NULL, net bigint NOT NULL,
    tax bigint NOT NULL, cost bigint NOT NULL, margin bigint NOT NULL, weight bigint NOT NULL,
    quantity bigint NOT NULL);
CREATE TABLE lab_facts.fact (
    seal bigint NOT NULL, checksum bigint NOT NULL, id bigint NOT NULL, gross bigint NOT NULL,
    discount bigint NOT NULL, net bigint NOT NULL, tax bigint NOT NULL, cost bigint NOT NULL,
    margin bigint NOT NULL, weight bigint NOT NULL, day int NOT NULL, product int NOT NULL,
    customer int NOT NULL, quantity int NOT NULL, unit int NOT NULL, run int NOT NULL, round int NOT NULL,
    batch int NOT NULL, source smallint NOT NULL, region smallint NOT NULL, category smallint NOT NULL,
    segment smallint NOT NULL, currency smallint NOT NULL, month smallint NOT NULL,
    quarter smallint NOT NULL, year smallint NOT NULL) WITH (autovacuum_enabled = off);
";

/// Each with its key.
pub(super) const KEYS: [(&str, &str); 6] = [
    ("day", "date"),
    ("product", "code"),
    ("customer", "code"),
    ("region", "region"),
    ("currency", "code"),
    ("batch", "source, batch"),
];

/// The sources that are tables.
pub(super) fn source_tables(shape: &Shape) -> String {
    let table = |source| {
        format!(
            "CREATE TABLE lab_facts.source_{source} (
                id bigint NOT NULL, checksum bigint NOT NULL, sold text NOT NULL, product text NOT NULL,
                customer text NOT NULL, currency text NOT NULL, quantity text NOT NULL, price text NOT NULL,
                payload bytea NOT NULL);
             ALTER TABLE lab_facts.source_{source} ALTER payload SET STORAGE PLAIN;\n"
        )
    };
    (1..=shape.tables).map(table).collect()
}
