// What this session may not do: what a guest's console shows of that has the reason beside it.
import { api } from '../api/client';
import type { operations } from '../api/schema';
import { session } from '../api/session';
import { Store } from './store';

/// The operations that the array refuses to this session.
export const refused = new Store<ReadonlySet<string>>(new Set());

const REASON = 'Only root may: run ashlar console as root on the machine of the array.';

/// Why an operation may not be used; null: it may.
export function denied(operation: keyof operations): string | null {
  return refused.get().has(operation) ? REASON : null;
}

async function ask(): Promise<void> {
  try {
    refused.set(new Set((await api.get('/v1/session')).refused_operations));
  } catch {
    // Whatever is pressed then the array refuses itself, with its own words.
  }
}

/// Asks for as long as there is a session.
export function startRights(): void {
  const onSession = () => void (session.get().state === 'in' && ask());
  session.subscribe(onSession);
  onSession();
}
