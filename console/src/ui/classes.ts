// Requests counted by how long they took.
import type { Latencies } from '../api/types';

export type Kind = 'reads' | 'writes';

/// Over all steps.
export function sums(latencies: Latencies, kind: Kind): number[] {
  const all = new Array<number>(latencies.bounds_micros.length + 1).fill(0);
  for (const step of latencies.steps) step[kind].forEach((found, index) => (all[index] += found));
  return all;
}

/// The time that this share of the requests did not exceed, as the end of a class.
export function within(counts: number[], share: number): number | null {
  const total = counts.reduce((sum, found) => sum + found, 0);
  if (total === 0) return null;
  let seen = 0;
  return counts.findIndex((found) => (seen += found) >= total * share);
}
