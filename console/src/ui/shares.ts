// What the requests of a volume look like, in words.
import type { IoProfile, RequestProfile } from '../api/types';
import { bytes } from './format';

export function percent(part: number, whole: number): string {
  if (whole === 0) return '–';
  const share = (100 * part) / whole;
  return part > 0 && share < 1 ? '<1 %' : `${Math.round(share)} %`;
}

export interface Kind {
  name: string;
  count: number;
  /// Of reads and writes: their lengths and order.
  shape?: RequestProfile;
}

export function kindsOf(profile: IoProfile): Kind[] {
  const { reads, writes, unmap_count, write_zeroes_count, flush_count } = profile;
  return [
    { name: 'reads', count: reads.count, shape: reads },
    { name: 'writes', count: writes.count, shape: writes },
    { name: 'unmaps', count: unmap_count },
    { name: 'zeroes', count: write_zeroes_count },
    { name: 'flushes', count: flush_count },
  ];
}

function shapeOf({ name, count, shape }: Kind): string[] {
  if (!shape || count === 0) return [];
  const most = shape.sizes.reduce((one, other) => (other.count > one.count ? other : one));
  const order = percent(shape.sequential_count, count);
  return [`Most ${name} have up to ${bytes(most.up_to_bytes)} (${percent(most.count, count)}), ${order} are sequential.`];
}

/// The charts as sentences.
export function told(profile: IoProfile): string {
  const kinds = kindsOf(profile);
  const all = kinds.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) return 'No request was counted.';
  const mix = kinds.filter(({ count }) => count > 0).map(({ name, count }) => `${percent(count, all)} ${name}`);
  return [`Of its requests are ${mix.join(', ')}.`, ...kinds.flatMap(shapeOf)].join(' ');
}
