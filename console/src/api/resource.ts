// What the page shows of the array: each address is fetched once for all who show it, and again when something
// happened, after an action, and from time to time.
import { useCallback, useEffect, useSyncExternalStore } from 'react';
import { addressOf, request, type Got, type Options, type PathsOf } from './client';
import { type ApiError, asError } from './error';
import type { paths } from '../../generated/schema';

export interface Resource<T> {
  data?: T;
  error?: ApiError;
  /// When it was fetched.
  atMillis?: number;
}

interface Entry {
  now: Resource<unknown>;
  text?: string;
  listeners: Set<() => void>;
  running?: Promise<void>;
  isStale: boolean;
  pollMillis: number;
  timer?: number;
}

const entries = new Map<string, Entry>();
const NOTHING: Resource<never> = {};
/// A list that takes long to fetch is fetched less often: at most a twentieth of the time.
const SHARE_OF_TIME = 20;

function entryOf(address: string): Entry {
  let entry = entries.get(address);
  if (!entry) {
    entry = { now: NOTHING, listeners: new Set(), isStale: true, pollMillis: 10_000 };
    entries.set(address, entry);
  }
  return entry;
}

function publish(entry: Entry, now: Resource<unknown>): void {
  entry.now = now;
  for (const listener of [...entry.listeners]) listener();
}

async function fetchOnce(address: string, entry: Entry): Promise<void> {
  entry.isStale = false;
  const begun = performance.now();
  try {
    const text = await request('GET', address);
    // Equal text, equal data: whoever shows it need not draw it again.
    if (text !== entry.text || entry.now.error) {
      entry.text = text;
      publish(entry, { data: JSON.parse(text), atMillis: Date.now() });
    }
  } catch (thrown) {
    publish(entry, { ...entry.now, error: asError(thrown) });
  }
  entry.running = undefined;
  if (entry.isStale) return void refresh(address);
  const pause = Math.max(entry.pollMillis, SHARE_OF_TIME * (performance.now() - begun));
  window.clearTimeout(entry.timer);
  if (entry.listeners.size > 0) entry.timer = window.setTimeout(() => pollNow(address), pause);
}

function pollNow(address: string): void {
  const entry = entryOf(address);
  if (entry.listeners.size === 0) return;
  if (document.hidden) entry.timer = window.setTimeout(() => pollNow(address), entry.pollMillis);
  else void refresh(address);
}

function refresh(address: string): Promise<void> {
  const entry = entryOf(address);
  if (entry.running) {
    entry.isStale = true;
    return entry.running;
  }
  entry.running = fetchOnce(address, entry);
  return entry.running;
}

/// Fetches anew what is shown and begins with one of these; what is not shown is fetched when it is.
export function invalidate(...beginnings: string[]): void {
  for (const [address, entry] of entries) {
    if (beginnings.length > 0 && !beginnings.some((beginning) => address.startsWith(beginning))) continue;
    if (entry.listeners.size > 0) void refresh(address);
    else entries.delete(address);
  }
}

let pending: number | undefined;

/// The same for everything, soon: many events in a row cost one round of requests.
export function invalidateSoon(): void {
  // A walk over a pool is no light request: it is asked for by people, not by events.
  pending ??= window.setTimeout(() => {
    pending = undefined;
    for (const [address, entry] of entries) {
      if (/\/space|^\/v1\/(history|latencies)/.test(address)) continue;
      if (entry.listeners.size > 0) void refresh(address);
      else entry.isStale = true;
    }
  }, 700);
}

/// Follows an address; `null` is nothing.
export function useAddress<T>(address: string | null, pollSeconds = 10): Resource<T> & { reload: () => void } {
  const subscribe = useCallback(
    (listener: () => void) => {
      if (address === null) return () => undefined;
      const entry = entryOf(address);
      entry.listeners.add(listener);
      return () => {
        entry.listeners.delete(listener);
        if (entry.listeners.size === 0) window.clearTimeout(entry.timer);
      };
    },
    [address],
  );
  const snapshot = () => (address === null ? NOTHING : entryOf(address).now) as Resource<T>;
  const now = useSyncExternalStore(subscribe, snapshot);
  useEffect(() => {
    if (address === null) return;
    const entry = entryOf(address);
    entry.pollMillis = pollSeconds * 1000;
    if (entry.running) return;
    const isFresh = !entry.isStale && Date.now() - (entry.now.atMillis ?? 0) < 2_000;
    if (!isFresh) void refresh(address);
    else entry.timer = window.setTimeout(() => pollNow(address), entry.pollMillis);
  }, [address, pollSeconds]);
  const reload = useCallback(() => {
    if (address !== null) void refresh(address);
  }, [address]);
  return { ...now, reload };
}

type GetOptions<P extends PathsOf<'get'>> = Options<NonNullable<paths[P]['get']>>;

/// Follows what a GET answers.
export function useGet<P extends PathsOf<'get'>>(path: P, options?: GetOptions<P>, pollSeconds = 10) {
  return useAddress<Got<P>>(addressOf(path, options as never), pollSeconds);
}
