// Figures as comma-separated values, in the columns of `ashlar history --csv`.
import type { Percentiles, Rates } from '../api/types';

const RATES = [
  'reads_per_second',
  'writes_per_second',
  'others_per_second',
  'errors_per_second',
  'read_bytes_per_second',
  'write_bytes_per_second',
] as const;
const LATENCIES = ['read', 'write'].flatMap((kind) => ['p50', 'p99', 'max'].map((part) => `${kind}_latency_${part}_micros`));

/// A line for each time with figures, under the names.
export function csvOf(samples: readonly { millis: number; rates: Rates | null }[]): string {
  const latency = (one: Percentiles | null | undefined) => (one ? [one.p50, one.p99, one.max] : ['', '', '']);
  const lines = samples.flatMap(({ millis, rates }) => {
    if (!rates) return [];
    const time = `${new Date(millis).toISOString().slice(0, 19)}Z`;
    const numbers = RATES.map((name) => rates[name].toFixed(3));
    return [[time, ...numbers, ...latency(rates.read_latency_micros), ...latency(rates.write_latency_micros)]];
  });
  return [['time', ...RATES, ...LATENCIES], ...lines].map((line) => `${line.join(',')}\n`).join('');
}
