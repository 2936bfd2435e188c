// What this session may do: what it may not stays in its place, with the reason beside it.
import { api } from '../api/client';
import type { operations } from '../../generated/schema';
import { session } from '../api/session';
import type { Role, Who } from '../api/types';
import { Store } from './store';

/// The operations that the array refuses to this session.
export const refused = new Store<ReadonlySet<string>>(new Set());
/// Who is signed in, once the array has said it.
export const who = new Store<Who | null>(null);

export type Operation = keyof operations;

const ROOT = 'Only root may: run ashlar console as root on the machine of the array.';

/// Why an operation may not be used; null: it may.
export function denied(operation: Operation | undefined): string | null {
  if (operation === undefined || !refused.get().has(operation)) return null;
  const now = who.get();
  // Whoever may everything lacks only what is root's.
  return now?.caller === 'person' && now.role !== 'admin' ? `Your role, ${now.role}, does not allow this.` : ROOT;
}

/// What one is called, for people.
export function nameOf(now: Who): string {
  if (now.user) return now.user;
  if (now.token) return `token ${now.token}`;
  return now.caller === 'owner' ? 'root' : 'guest';
}

export const ROLES: { id: Role; label: string; note: string }[] = [
  { id: 'viewer', label: 'Viewer', note: 'Sees everything but secrets' },
  { id: 'operator', label: 'Operator', note: 'Volumes, snapshots, clones, databases, schedules' },
  { id: 'admin', label: 'Admin', note: 'Everything: pools, drives, hosts, users' },
];

async function ask(): Promise<void> {
  try {
    const said = await api.get('/v1/session');
    refused.set(new Set(said.refused_operations));
    who.set(said);
  } catch {
    // Whatever is pressed then the array refuses itself, with its own words.
  }
}

/// Asks for as long as there is a session.
export function startRights(): void {
  const onSession = () => {
    if (session.get().state === 'in') return void ask();
    // The next one may be somebody else.
    refused.set(new Set());
    who.set(null);
  };
  session.subscribe(onSession);
  onSession();
}
