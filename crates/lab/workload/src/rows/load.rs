//! Makes the table and fills it. The server makes the rows: they are the same for the same number.

use std::time::Duration;

use ashlar_postgres::{Address, Session};

use super::{ROWS_PER_STATEMENT, groups};
use crate::error::{Error, Result};

/// What to load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    pub rows: i64,
    /// Changes are in the log of the server, and survive its crash.
    pub is_logged: bool,
    /// No answer within this means that the server is lost. Filling is one statement.
    pub limit: Duration,
}

/// Numbers begin at 0 to this, so that their sum tells a row from another.
pub(super) const NUMBERS: i64 = 1000;
/// Of a filler: five times the digits of a MD5 sum, which compress to about a half.
pub(super) const FILLER_LENGTH: i64 = 160;

/// Vacuum would come in the middle of a step; after each fill it is asked for.
const TABLES: &str = "
CREATE SCHEMA lab_rows;
CREATE TABLE lab_rows.origin (rows bigint NOT NULL);
CREATE KIND TABLE lab_rows.item (
    id bigint NOT NULL, grp bigint NOT NULL, number integer NOT NULL, filler text NOT NULL)
    WITH (autovacuum_enabled = false)";
const INDEXES: &str = "
ALTER TABLE lab_rows.item ADD CONSTRAINT item_key PRIMARY KEY (id);
CREATE INDEX item_group ON lab_rows.item (grp)";

/// One call for a step; it commits as often as a client does.
const PROCEDURES: &str = "
CREATE PROCEDURE lab_rows.update_all(rows bigint, INOUT changed bigint) LANGUAGE plpgsql AS $$
DECLARE first bigint := 1; part bigint;
BEGIN
    changed := 0;
    WHILE first <= rows LOOP
        UPDATE lab_rows.item SET number = number + 1 WHERE id BETWEEN first AND first + STEP - 1;
        GET DIAGNOSTICS part = ROW_COUNT;
        COMMIT;
        changed := changed + part;
        first := first + STEP;
    END LOOP;
END $$;
CREATE PROCEDURE lab_rows.delete_all(rows bigint, INOUT changed bigint) LANGUAGE plpgsql AS $$
DECLARE first bigint := 1; part bigint;
BEGIN
    changed := 0;
    WHILE first <= rows LOOP
        DELETE FROM lab_rows.item WHERE id BETWEEN first AND first + STEP - 1;
        GET DIAGNOSTICS part = ROW_COUNT;
        COMMIT;
        changed := changed + part;
        first := first + STEP;
    END LOOP;
END $$;
CREATE FUNCTION lab_rows.of_groups(asked bigint[]) RETURNS SETOF lab_rows.item LANGUAGE plpgsql STABLE AS $$
DECLARE one bigint;
BEGIN
    FOREACH one IN ARRAY asked LOOP
        RETURN QUERY SELECT * FROM lab_rows.item WHERE grp = one;
    END LOOP;
END $$";

/// As they are made.
pub(super) fn procedures() -> String {
    PROCEDURES.replace("STEP", &ROWS_PER_STATEMENT.to_string())
}

/// Loads the schema `lab_rows` of a database.
///
/// # Errors
/// When it is there already, or the server refuses or is lost; [`unload`] drops it.
pub fn load(address: &Address, load: &Load) -> Result<()> {
    let mut session = Session::open(address, "ashlar lab load", load.limit)?;
    if !session.run("SELECT 1 FROM pg_namespace WHERE nspname = 'lab_rows'")?.is_empty() {
        let shown = address.shown();
        return Err(Error::environment(format!("{shown} has a schema lab_rows already: unload it first")));
    }
    session.run(&TABLES.replace("KIND ", if load.is_logged { "" } else { "UNLOGGED " }))?;
    session.run(&format!("INSERT INTO lab_rows.origin VALUES ({})", load.rows))?;
    session.run(&fill_statement(load.rows))?;
    session.run(INDEXES)?;
    session.run(&procedures())?;
    session.run("VACUUM (ANALYZE) lab_rows.item")?;
    Ok(())
}

/// Drops the schema `lab_rows` with all that is in it.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn unload(session: &mut Session) -> Result<()> {
    session.run("DROP SCHEMA IF EXISTS lab_rows CASCADE")?;
    Ok(())
}

/// How many rows were loaded.
pub(super) fn rows(session: &mut Session) -> Result<i64> {
    let found = session.run("SELECT rows FROM lab_rows.origin")?;
    let rows = found.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
    rows.filter(|rows| *rows > 0).ok_or_else(|| Error::content("lab_rows.origin is not as the load wrote it"))
}

/// Everything as it was loaded, in new files.
pub(super) fn refill(session: &mut Session, rows: i64) -> Result<()> {
    session.run("TRUNCATE lab_rows.item")?;
    session.run(&fill_statement(rows))?;
    session.run("VACUUM (ANALYZE) lab_rows.item")?;
    Ok(())
}

fn fill_statement(rows: i64) -> String {
    let groups = groups(rows);
    let digits: Vec<String> = (1..=5).map(|part| format!("md5('{part}/' || id)")).collect();
    format!(
        "INSERT INTO lab_rows.item SELECT id, (id - 1) % {groups}, id % {NUMBERS}, {} \
         FROM generate_series(1, {rows}) id",
        digits.join(" || ")
    )
}
