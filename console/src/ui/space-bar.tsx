// The drives of a pool as one bar: its parts sum to their physical size.
import type { Space } from '../api/types';
import { Bytes } from './basics';
import { bytes } from './format';

export interface Part {
  id: string;
  label: string;
  bytes: number;
  note: string;
}

/// The parts of a pool, none twice: what is dead is taken off what it lies in.
export function partsOf(space: Space): Part[] {
  const dead = space.dead_bytes ?? 0;
  const written = space.data_bytes + space.metadata_bytes;
  const parts: Part[] = [
    { id: 'used', label: 'In use', bytes: written - dead, note: 'data and map that something refers to' },
    { id: 'dead', label: 'To be cleaned', bytes: dead, note: 'deleted or written over; becomes room when needed' },
    { id: 'parity', label: 'Parity', bytes: space.parity_bytes ?? 0, note: 'what outlives a lost drive' },
    { id: 'spare', label: 'Spare space', bytes: space.spare_bytes ?? 0, note: 'room for what a lost drive held' },
    { id: 'journal', label: 'Journal', bytes: space.journal_bytes, note: 'writes not yet in the map' },
    { id: 'reserve', label: 'Reserve', bytes: space.reserve_bytes, note: 'kept for deletes and checkpoints' },
    { id: 'kept', label: 'Kept for volumes', bytes: space.kept_bytes ?? 0, note: 'reserves of volumes' },
    { id: 'other', label: 'Superblocks', bytes: space.superblock_bytes, note: 'who the pool is' },
    { id: 'unusable', label: 'Unusable', bytes: space.unusable_bytes ?? 0, note: 'beyond what all drives have' },
    { id: 'freed', label: 'Being freed', bytes: space.freed_bytes, note: 'free in a moment' },
    { id: 'free', label: 'Free', bytes: space.free_bytes, note: 'for the writes of any host at once' },
  ];
  return parts.filter((part) => part.bytes > 0);
}

export function SpaceBar({ pool, space }: { pool: string; space: Space }) {
  const parts = partsOf(space);
  const said = parts.map((part) => `${part.label} ${bytes(part.bytes)}`).join(', ');
  return (
    <div className="space">
      <div className="space-bar" role="img" aria-label={`Pool ${pool}, ${bytes(space.physical_bytes)}: ${said}`}>
        {parts.map((part) => (
          <span
            key={part.id}
            className={`part part-${part.id}`}
            title={`${part.label}: ${bytes(part.bytes)}, ${part.note}`}
            style={{ flexGrow: part.bytes / space.physical_bytes }}
          />
        ))}
      </div>
      <ul className="space-legend">
        {parts.map((part) => (
          <li key={part.id} title={part.note}>
            <span className={`key part-${part.id}`} aria-hidden="true" />
            {part.label} <Bytes of={part.bytes} />
          </li>
        ))}
        <li className="sum">
          Physical <Bytes of={space.physical_bytes} />
        </li>
      </ul>
    </div>
  );
}
