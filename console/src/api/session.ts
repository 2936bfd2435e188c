// Who we are to the array: a login or a one-time ticket becomes a token, which this tab alone keeps.
import { Store } from '../state/store';
import { ApiError, errorOf, unreachable } from './error';

const KEY = 'ashlar.token';

export type Session =
  | { state: 'in'; token: string }
  | { state: 'entering' }
  | { state: 'out'; wasIn: boolean; error?: ApiError };

function kept(): Session {
  const token = sessionStorage.getItem(KEY);
  return token ? { state: 'in', token } : { state: 'out', wasIn: false };
}

export const session = new Store<Session>(kept());

/// The ticket in what a person pasted: a whole address, its fragment, or the ticket alone.
export function ticketOf(text: string): string | null {
  const found = /ticket=([^&\s]+)/.exec(text);
  if (found) return decodeURIComponent(found[1]);
  const bare = text.trim();
  return /^[A-Za-z0-9._~+/=-]+$/.test(bare) && !bare.includes('://') ? bare : null;
}

/// Takes a ticket out of the address, so that neither history nor a copied address holds it.
export function takeTicket(): void {
  const ticket = location.hash.includes('ticket=') ? ticketOf(location.hash) : null;
  if (ticket === null) return;
  history.replaceState(null, '', location.pathname + location.search);
  void enter(ticket);
}

export function enter(ticket: string): Promise<void> {
  return begin('/v1/console-sessions', { ticket });
}

export function logIn(user: string, password: string): Promise<void> {
  return begin('/v1/sessions', { user, password });
}

async function begin(path: '/v1/console-sessions' | '/v1/sessions', body: object): Promise<void> {
  session.set({ state: 'entering' });
  let answer: Response;
  try {
    answer = await fetch(path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
  } catch {
    return session.set({ state: 'out', wasIn: false, error: unreachable() });
  }
  if (!answer.ok) {
    return session.set({ state: 'out', wasIn: false, error: await errorOf(answer) });
  }
  const { token } = (await answer.json()) as { token: string };
  sessionStorage.setItem(KEY, token);
  session.set({ state: 'in', token });
}

/// The array does not know the token any more.
export function endSession(): void {
  if (session.get().state !== 'in') return;
  sessionStorage.removeItem(KEY);
  session.set({ state: 'out', wasIn: true });
}

/// A person leaves: the array ends the session, and this tab forgets its token whatever the array says.
export function leave(): void {
  void fetch('/v1/session', { method: 'DELETE', headers: authorization() }).catch(() => undefined);
  sessionStorage.removeItem(KEY);
  session.set({ state: 'out', wasIn: false });
}

export function authorization(): Record<string, string> {
  const now = session.get();
  return now.state === 'in' ? { Authorization: `Bearer ${now.token}` } : {};
}
