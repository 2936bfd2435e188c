// What the mock's hosts do: figures of a second, and histories, that rise and fall like those of a database.
import { dice } from './world.mjs';

const wave = (seconds, period, phase) => 0.5 + 0.5 * Math.sin((seconds / period) * 2 * Math.PI + phase);

function latency(p50, roll) {
  const p99 = p50 * (3 + roll() * 4);
  return { p50: Math.round(p50), p99: Math.round(p99), max: Math.round(p99 * 2) };
}

/// Rates of an object at a time; `weight` says how busy it is.
export function ratesAt(seconds, weight, seed) {
  const roll = dice(seed * 31 + Math.floor(seconds));
  const busy = weight * (0.35 + 0.5 * wave(seconds, 86_400, seed) + 0.25 * wave(seconds, 97, seed * 3) + 0.15 * roll());
  const reads = 4200 * busy;
  const writes = 1900 * busy * (0.7 + 0.6 * roll());
  return {
    reads_per_second: reads,
    writes_per_second: writes,
    read_bytes_per_second: reads * 11_000,
    write_bytes_per_second: writes * 9_300,
    others_per_second: writes * 0.05,
    errors_per_second: 0,
    read_latency_micros: reads >= 0.5 ? latency(140 + 90 * roll(), roll) : null,
    write_latency_micros: writes >= 0.5 ? latency(310 + 160 * roll(), roll) : null,
  };
}

const weightOf = (index) => (index < 2 ? 0.8 : index < 12 ? 0.12 : 0.01);

export function figuresOf(world, millis) {
  const seconds = millis / 1000;
  const active = world.volumes.filter((_, index) => index < 12 || (index + Math.floor(seconds / 7)) % 5 === 0);
  const isBusy = world.volumes.length > 0;
  return {
    unix_millis: millis,
    interval_millis: 1000,
    array: ratesAt(seconds, isBusy ? 2 : 0, 1),
    pools: world.pools.map((pool, index) => ({
      pool: pool.name,
      full_percent: pool.full_percent,
      rates: ratesAt(seconds, index === 0 ? 1.9 : 0.1, 2 + index),
      drive_read_bytes_per_second: 60e6 * (1 + wave(seconds, 60, index)),
      drive_write_bytes_per_second: 45e6 * (1 + wave(seconds, 45, index)),
    })),
    volumes: active.slice(0, 3000).map((volume) => ({
      volume: volume.name,
      rates: ratesAt(seconds, weightOf(world.volumes.indexOf(volume)), volume.id),
    })),
  };
}

/// How long requests took, by class: most fast, a few slow.
export function latenciesOf(world, object, range) {
  const { step_seconds, points } = historyOf(world, object, range);
  const bounds = Array.from({ length: 20 }, (_, power) => 2 ** (14 + power) / 1000);
  const spread = (rate, p50, seed) => {
    const roll = dice(seed);
    const middle = bounds.findIndex((bound) => bound > p50);
    const shares = [0.1, 0.45, 0.3, 0.1, 0.04, 0.009, roll() > 0.8 ? 0.001 : 0];
    const counts = new Array(middle - 1).fill(0);
    for (const share of shares) counts.push(Math.round(rate * step_seconds * share));
    return counts;
  };
  const steps = points.map(({ unix_millis, rates }) => ({
    unix_millis,
    reads: rates.read_latency_micros ? spread(rates.reads_per_second, rates.read_latency_micros.p50, unix_millis) : [],
    writes: rates.write_latency_micros ? spread(rates.writes_per_second, rates.write_latency_micros.p50, unix_millis + 1) : [],
  }));
  return { object, range, step_seconds, bounds_micros: bounds, steps };
}

const STEPS = { hour: [10, 3600], day: [300, 86_400], week: [1800, 604_800] };

export function historyOf(world, object, range) {
  const [step, span] = STEPS[range] ?? STEPS.hour;
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const seed = object === 'array' ? 1 : [...object].reduce((sum, letter) => sum + letter.charCodeAt(0), 0);
  const points = [];
  for (let at = end - span; world.volumes.length > 0 && at <= end; at += step) {
    // The array was down for a while: its points are missing.
    if (range !== 'hour' && at > end - span * 0.62 && at < end - span * 0.55) continue;
    points.push({ unix_millis: at * 1000, rates: ratesAt(at, object === 'array' ? 2 : 0.5, seed) });
  }
  return { object, range, step_seconds: step, points };
}

/// What a volume's requests look like: those of a database, small and mostly random, and its log.
export function profileOf({ name, id }, seconds) {
  const weight = seconds ? Number(seconds) : 100_000;
  const shape = (classes, sequential) => {
    const sizes = classes.map(([up_to_bytes, count]) => ({ up_to_bytes, count: count * weight + id }));
    const count = sizes.reduce((sum, one) => sum + one.count, 0);
    return { count, sequential_count: Math.floor(count * sequential), sizes };
  };
  return {
    volume: name,
    ...(seconds && { counted_seconds: Number(seconds) }),
    reads: shape([[4096, 20], [8192, 300], [131_072, 12]], 0.14),
    writes: shape([[4096, 30], [8192, 120], [65_536, 9]], 0.62),
    unmap_count: 2 * weight,
    write_zeroes_count: 0,
    flush_count: 7 * weight,
  };
}
