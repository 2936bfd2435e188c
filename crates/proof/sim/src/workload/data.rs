//! Hosts: concurrent reads, writes, unmaps, write-zeroes and flushes on live volumes.

use std::rc::Rc;

use ashlar_block::{BlockDevice, ErrorKind};
use ashlar_units::BLOCK_BYTES;

use super::World;
use super::claims::{Object, Use};
use super::copies;
use super::refusal::{Issued, judge_refusal};
use crate::chance::{Chance, mix};
use crate::content::{SECTOR_BYTES, Texture, Value, note_forged};
use crate::oracle::{Image, ImageKey, Outcome, Run};
use crate::system::{Trouble, TroubleKind};

/// Places of a volume that the workload writes: few and mostly small, so that requests meet.
const REGIONS: u64 = 4;
const HOT_BYTES: u64 = 32 << 10;

/// What a write carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// What hosts have to write.
    Honest,
    /// What passes for structures of the pool.
    Forged,
}

/// One host with one request at a time.
pub async fn work(world: Rc<World>) {
    // Some hosts write dependent pages without pause, as a database and its log do.
    let is_chain = world.draw(|chance| chance.one_in(3));
    while world.take_request() && !world.record.has_failed() {
        if !is_chain && world.draw(|chance| chance.one_in(4)) {
            world.pause(300).await;
        }
        let Some(name) = pick_volume(&world) else {
            world.pause(2_000).await;
            continue;
        };
        let Some(claim) = world.claims.try_claim(vec![(Object::Data(name.clone()), Use::Shared)]) else {
            world.pause(2_000).await;
            continue;
        };
        if world.is_under_pressure() {
            world.pause(5_000).await;
        }
        let Some(incarnation) = incarnation(&world, &name) else {
            continue;
        };
        if let Some(device) = world.door(&name, incarnation) {
            if is_chain {
                let run = draw_page(&world, &name, &*device);
                write(&world, &name, &*device, run, Carried::Honest).await;
            } else {
                request(&world, &name, device).await;
            }
            world.record.count(|counters| counters.requests += 1);
            world.progress();
        } else {
            let gone = Trouble { kind: TroubleKind::Gone, text: "not served".to_string() };
            world.judge_data(&format!("volume {name}"), &name, incarnation, &gone);
            world.pause(100).await;
        }
        drop(claim);
    }
}

/// In a scenario with a forger other hosts carry forged contents now and then, too: through snapshots, clones
/// and equal blocks.
fn draw_carried(world: &World) -> Carried {
    match world.scenario.forger.is_some() && world.draw(|chance| chance.one_in(8)) {
        true => Carried::Forged,
        false => Carried::Honest,
    }
}

pub fn incarnation(world: &World, name: &str) -> Option<u32> {
    world.oracle.borrow().volumes().get(name).map(|volume| volume.incarnation)
}

pub fn pick_volume(world: &World) -> Option<String> {
    let oracle = world.oracle.borrow();
    let names: Vec<&String> = oracle.volumes().keys().collect();
    (!names.is_empty()).then(|| world.draw(|chance| (*chance.pick(&names)).clone()))
}

async fn request(world: &World, name: &str, device: Rc<dyn BlockDevice>) {
    let mix = &world.scenario.data;
    let weights =
        [mix.write, mix.read, mix.unmap, mix.write_zeroes, mix.flush, mix.invalid, mix.read / 4, mix.copy];
    let key = ImageKey::Live(name.to_string());
    let (kind, run) = {
        let oracle = world.oracle.borrow();
        let image = oracle.image(&key).expect("claimed volumes exist");
        let block = device.geometry().logical_block_bytes;
        world.draw(|chance| (chance.weighted(&weights), draw_run(chance, name, image, block, world)))
    };
    match kind {
        0 => write(world, name, &*device, run, draw_carried(world)).await,
        1 => read(world, &key, &*device, run).await,
        2 | 3 => clear(world, name, &*device, run, kind == 2).await,
        4 => {
            let number = incarnation(world, name).unwrap_or(0);
            match device.flush().await {
                Ok(()) => world.record.note(|| format!("{name}: flushed")),
                Err(error) => world.judge_data(&format!("flush of {name}"), name, number, &error.into()),
            }
        }
        5 => invalid(world, name).await,
        6 => extents(world, &key, &*device, run).await,
        7 => copies::copy(world, name, run).await,
        other => unreachable!("there are eight kinds, not {other}"),
    }
}

/// A run of a door's blocks inside one of the volume's regions.
fn draw_run(chance: &mut Chance, name: &str, image: &Image, block_bytes: u32, world: &World) -> Run {
    let unit = u64::from(image.unit_bytes);
    let block = u64::from(block_bytes).max(unit);
    let volume_seed = name.bytes().fold(7, |seed, byte| mix(seed ^ u64::from(byte)));
    let region = if chance.one_in(2) { 0 } else { chance.below(REGIONS) };
    let region_bytes = world.scenario.region_bytes;
    let room = image.size_bytes.saturating_sub(region_bytes);
    let start = match region {
        0 => 0,
        1 => room,
        other => mix(volume_seed ^ other) % (room + 1),
    };
    // Regions keep to 4 KiB so that requests of both block sizes meet each other.
    let start = start / 4096 * 4096;
    let inside = if chance.one_in(2) { chance.below(HOT_BYTES) } else { chance.below(region_bytes) };
    let alignment = if chance.one_in(3) { block } else { block.max(4096) };
    let first_byte = (start + inside) / alignment * alignment;
    let first = first_byte.min(image.size_bytes.saturating_sub(block)) / unit;
    let length = match chance.below(10) {
        0..4 => chance.between(1, 16 << 10),
        4..7 => chance.between(1, 16) * 4096,
        7..9 => chance.between(1, 64) * 4096,
        _ => chance.between(1, 128) * 4096,
    };
    let count = length.min(world.scenario.request_bytes_max).div_ceil(block) * block / unit;
    Run { first, count: count.clamp(1, image.units() - first) }
}

/// A page somewhere in the volume's regions.
pub fn draw_page(world: &World, name: &str, device: &dyn BlockDevice) -> Run {
    let oracle = world.oracle.borrow();
    let image = &oracle.volumes()[name].image;
    let block = device.geometry().logical_block_bytes;
    let run = world.draw(|chance| draw_run(chance, name, image, block, world));
    Run { count: u64::from(block / image.unit_bytes).max(1), ..run }
}

/// Draws what a write of these bytes carries, from the write's own number.
fn draw_value(world: &World, offset: u64, length: u64, carried: Carried) -> Value {
    let number = world.oracle.borrow().next_write_number();
    if carried == Carried::Forged
        && let Some(forger) = &mut *world.forger.borrow_mut()
        && let Some(bytes) = forger.forge(&world.array.borrow(), offset % BLOCK_BYTES, length as usize)
    {
        note_forged(number, offset / SECTOR_BYTES as u64, &bytes);
        world.record.count(|counters| counters.forged += 1);
        return Value::of_write(number, Texture::Forged);
    }
    let texture = world.draw(|chance| {
        if chance.below(1000) < world.scenario.repeated_per_mille {
            return Texture::Repeated;
        }
        *chance.pick(&[Texture::Random, Texture::Random, Texture::Compressible, Texture::Fill])
    });
    match world.draw(|chance| chance.below(20)) {
        0 => Value::ZERO,
        _ => Value::of_write(number, texture),
    }
}

fn bytes_of(world: &World, name: &str, run: Run) -> (u64, u64, u64) {
    let oracle = world.oracle.borrow();
    let image = &oracle.volumes()[name].image;
    let unit = u64::from(image.unit_bytes);
    (run.first * unit, run.count * unit, run.first * image.unit_sectors())
}

pub async fn write(world: &World, name: &str, device: &dyn BlockDevice, run: Run, carried: Carried) {
    let (offset, length, sector) = bytes_of(world, name, run);
    let value = draw_value(world, offset, length, carried);
    let mut data = vec![0; length as usize];
    value.fill(sector, &mut data);
    let is_fua = world.draw(|chance| chance.one_in(8));
    let incarnation = incarnation(world, name).expect("the caller looked");
    if world.oracle.borrow().is_part_beside_another(name, run) {
        world.record.add_probes(&[("parts of blocks beside other writes", 1)]);
    }
    let issued = Issued::now(world, name, run, value);
    let id = issued.id;
    world.record.note(|| format!("{name}: {value} at {offset}+{length} issued as {}", id.0));
    world.carries.set(value);
    let result = device.write(offset, &data, is_fua).await;
    end_write(world, (name, incarnation), (&issued, run), result, "write");
}

pub(super) fn end_write(
    world: &World,
    (name, incarnation): (&str, u32),
    (issued, run): (&Issued, Run),
    result: ashlar_block::Result<()>,
    what: &str,
) {
    let id = issued.id;
    let result = result.map_err(Trouble::from);
    let may_be_beyond = world.oracle.borrow().may_be_out_of_range(name, run);
    let outcome = match &result {
        Ok(()) => Outcome::Done,
        // A large request is carried out in parts: some may have been in range still.
        Err(_) if may_be_beyond => Outcome::Doubtful,
        Err(trouble) => trouble.outcome(),
    };
    world.oracle.borrow_mut().write_end(id, outcome);
    world.record.digest_fact(u64::from(id.0) << 8 | u64::from(outcome == Outcome::Done));
    match result {
        Ok(()) => world.record.note(|| format!("{name}: {} acknowledged", id.0)),
        Err(trouble) => {
            if trouble.kind == TroubleKind::NoSpace && issued.is_limited {
                world.record.note(|| format!("{name}: {} refused: {}", id.0, trouble.text));
                return;
            }
            // Over NBD a volume has no space behind its end, however empty the pool is.
            if trouble.kind == TroubleKind::NoSpace && !may_be_beyond {
                judge_refusal(world, issued, &format!("{what} {} of {name}", id.0));
            }
            world.judge_run(&format!("{what} {} of {name}", id.0), (name, incarnation), run, &trouble);
        }
    }
}

async fn clear(world: &World, name: &str, device: &dyn BlockDevice, run: Run, is_unmap: bool) {
    let whole = Run { first: 0, count: world.oracle.borrow().volumes()[name].image.units() };
    let run = match world.draw(|chance| chance.below(10)) {
        // Rarely the whole volume, and rarely all that follows: subtrees at every level.
        0 => whole,
        1 => Run { first: run.first, count: whole.count - run.first },
        _ => run,
    };
    let (offset, length, _) = bytes_of(world, name, run);
    let incarnation = incarnation(world, name).expect("the caller looked");
    let issued = Issued::now(world, name, run, Value::ZERO);
    let id = issued.id;
    world.record.note(|| {
        let what = if is_unmap { "unmap" } else { "write-zeroes" };
        format!("{name}: {what} at {offset}+{length} issued as {}", id.0)
    });
    let result = if is_unmap {
        device.unmap(offset, length).await
    } else {
        let may_unmap = world.draw(|chance| chance.one_in(2));
        device.write_zeroes(offset, length, may_unmap).await
    };
    end_write(
        world,
        (name, incarnation),
        (&issued, run),
        result,
        if is_unmap { "unmap" } else { "write-zeroes" },
    );
}

/// Reads a run of an image and has it judged.
pub async fn read(world: &World, key: &ImageKey, device: &dyn BlockDevice, run: Run) {
    let number = incarnation(world, &key.device_name()).unwrap_or(0);
    let (id, unit) = {
        let mut oracle = world.oracle.borrow_mut();
        let unit = u64::from(oracle.image(key).expect("the image exists").unit_bytes);
        (oracle.read_begin(key, run), unit)
    };
    // A pattern, so that a read which fills nothing does not pass for zeroes.
    let mut bytes = vec![0xa5; (run.count * unit) as usize];
    match device.read(run.first * unit, &mut bytes).await {
        Ok(()) => {
            world.record.count(|counters| counters.bytes_verified += bytes.len() as u64);
            if let Err(wrong) = world.oracle.borrow_mut().read_end(id, &bytes) {
                world.record.fail(format!("wrong bytes: {wrong}"));
            }
        }
        Err(error) => {
            world.oracle.borrow_mut().read_abandon(id);
            let what = format!("read of {} at block {}", key.device_name(), run.first);
            world.judge_run(&what, (&key.device_name(), number), run, &error.into());
        }
    }
}

async fn extents(world: &World, key: &ImageKey, device: &dyn BlockDevice, run: Run) {
    let number = incarnation(world, &key.device_name()).unwrap_or(0);
    let (id, unit) = {
        let mut oracle = world.oracle.borrow_mut();
        let unit = u64::from(oracle.image(key).expect("the image exists").unit_bytes);
        (oracle.read_begin(key, run), unit)
    };
    let extents_max = world.draw(|chance| chance.between(1, 8)) as usize;
    match device.extents(run.first * unit, run.count * unit, extents_max).await {
        Ok(extents) => {
            if let Err(wrong) = world.oracle.borrow_mut().extents_end(id, &extents) {
                world.record.fail(format!("wrong extents: {wrong}"));
            }
        }
        Err(error) => {
            world.oracle.borrow_mut().read_abandon(id);
            let what = format!("extents of {}", key.device_name());
            world.judge_run(&what, (&key.device_name(), number), run, &error.into());
        }
    }
}

/// A snapshot takes no writes.
async fn write_to_snapshot(world: &World) {
    let Some((key, unit)) = ({
        let oracle = world.oracle.borrow();
        let mut keys = oracle.image_keys();
        keys.retain(|key| matches!(key, ImageKey::Frozen { .. }));
        let key = (!keys.is_empty()).then(|| world.draw(|chance| chance.pick(&keys).clone()));
        key.and_then(|key| Some((key.clone(), oracle.image(&key)?.unit_bytes)))
    }) else {
        return;
    };
    let Some(device) = world.system.device(&key.device_name()) else { return };
    match device.write(0, &vec![0x5a; unit as usize], false).await {
        Err(error) if matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::Gone) => {}
        other => world.record.fail(format!("a write to {} was answered with {other:?}", key.device_name())),
    }
}

/// Requests a device must refuse as invalid, changing nothing.
async fn invalid(world: &World, name: &str) {
    if world.draw(|chance| chance.one_in(3)) {
        return write_to_snapshot(world).await;
    }
    // Past the door, which refuses such requests itself.
    let Some(device) = world.system.device(name) else { return };
    let geometry = device.geometry();
    if geometry.size_bytes == 0 {
        // Deleted a moment ago.
        return;
    }
    let unit = u64::from(geometry.logical_block_bytes);
    let data = vec![0x5a; unit as usize];
    let result = match world.draw(|chance| chance.below(4)) {
        0 => device.write(geometry.size_bytes - unit + 1, &data, false).await,
        1 => device.write(geometry.size_bytes, &data, false).await,
        2 => device.unmap(geometry.size_bytes - unit, 2 * unit).await,
        _ => device.write_zeroes(u64::MAX - unit + 1, 2 * unit, true).await,
    };
    match result {
        Err(error) if error.kind == ErrorKind::Invalid => {}
        Err(error) if error.kind == ErrorKind::Gone && device.geometry().size_bytes == 0 => {}
        other => world.record.fail(format!("an invalid request to {name} was answered with {other:?}")),
    }
}
