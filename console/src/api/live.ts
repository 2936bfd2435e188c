// The live stream: figures once a second and new events, kept for the last five minutes. It comes back by itself.
import { Store } from '../state/store';
import { errorOf } from './error';
import { invalidate, invalidateSoon } from './resource';
import { authorization, endSession, session } from './session';
import { MessageReader, type Message } from './sse';
import { NO_RATES, type Event, type Figures, type Hello, type Rates } from './types';

/// Seconds that are kept.
export const KEPT_SECONDS = 300;
/// A stream that says nothing for so long is broken, whatever the network believes.
const SILENCE_MILLIS = 20_000;
const PAUSE_MILLIS_MAX = 15_000;
const EVENTS_KEPT = 1000;

export interface Connection {
  state: 'connecting' | 'connected' | 'broken';
  /// Since when there is none.
  brokenSinceMillis?: number;
  bootId?: string;
  version?: string;
  reason?: string;
}

export const connection = new Store<Connection>({ state: 'connecting' });
/// The newest figures; each set is one second.
export const figures = new Store<Figures | null>(null);
/// Events heard since this page was opened, the newest first.
export const heard = new Store<Event[]>([]);

interface Sample {
  millis: number;
  rates: Rates;
}

let ring: Figures[] = [];
const byVolume = new Map<string, Sample[]>();
let lastEventId: string | undefined;
let stop: AbortController | undefined;

/// All figures of the last five minutes, oldest first.
export function recent(): readonly Figures[] {
  return ring;
}

/// One object's rates over the figures that are kept: none where it had no request.
export function recentOf(object: string): Sample[] {
  if (object === 'array') return ring.map((one) => ({ millis: one.unix_millis, rates: one.array }));
  const name = object.slice(object.indexOf(':') + 1);
  if (object.startsWith('pool:')) {
    return ring.map((one) => ({
      millis: one.unix_millis,
      rates: one.pools.find((pool) => pool.pool === name)?.rates ?? NO_RATES,
    }));
  }
  const at = new Map((byVolume.get(name) ?? []).map((sample) => [sample.millis, sample.rates]));
  return ring.map((one) => ({ millis: one.unix_millis, rates: at.get(one.unix_millis) ?? NO_RATES }));
}

/// What a volume does now.
export function ratesOf(volume: string): Rates {
  const samples = byVolume.get(volume);
  const last = samples?.[samples.length - 1];
  return last && last.millis === figures.get()?.unix_millis ? last.rates : NO_RATES;
}

/// Requests per second of a volume over the last `count` seconds, oldest first.
export function sparkOf(volume: string, count: number): number[] {
  const samples = byVolume.get(volume);
  const seconds = ring.slice(-count);
  if (!samples) return seconds.map(() => 0);
  let next = samples.length - 1;
  const values = new Array<number>(seconds.length).fill(0);
  for (let index = seconds.length - 1; index >= 0 && next >= 0; index -= 1) {
    if (samples[next].millis !== seconds[index].unix_millis) continue;
    values[index] = samples[next].rates.reads_per_second + samples[next].rates.writes_per_second;
    next -= 1;
  }
  return values;
}

function take(one: Figures): void {
  ring.push(one);
  if (ring.length > KEPT_SECONDS) ring = ring.slice(-KEPT_SECONDS);
  const oldest = ring[0].unix_millis;
  for (const { volume, rates } of one.volumes) {
    const samples = byVolume.get(volume) ?? [];
    samples.push({ millis: one.unix_millis, rates });
    while (samples[0].millis < oldest) samples.shift();
    byVolume.set(volume, samples);
  }
  figures.set(one);
}

function hello(now: Hello): void {
  const before = connection.get().bootId;
  if (before !== undefined && before !== now.boot_id) {
    ring = [];
    byVolume.clear();
    heard.set([]);
    invalidate();
  } else if (before !== undefined) {
    invalidateSoon();
  }
  connection.set({ state: 'connected', bootId: now.boot_id, version: now.version });
}

function onMessage(message: Message): void {
  if (message.event === 'hello') return hello(JSON.parse(message.data) as Hello);
  if (message.event === 'figures') return take(JSON.parse(message.data) as Figures);
  if (message.event !== 'event') return;
  if (message.id) lastEventId = message.id;
  const event = JSON.parse(message.data) as Event;
  if (heard.get().some((known) => known.sequence === event.sequence)) return;
  heard.set([event, ...heard.get()].slice(0, EVENTS_KEPT));
  invalidateSoon();
}

/// Reads the stream until it ends. True: it had said something.
async function readOnce(abort: AbortController): Promise<boolean> {
  let silence = window.setTimeout(() => abort.abort(), SILENCE_MILLIS);
  let said = false;
  try {
    const headers: Record<string, string> = { Accept: 'text/event-stream', ...authorization() };
    if (lastEventId) headers['Last-Event-ID'] = lastEventId;
    const answer = await fetch('/v1/live', { headers, signal: abort.signal, cache: 'no-store' });
    if (!answer.ok || !answer.body) {
      const error = await errorOf(answer);
      if (error.status === 401) endSession();
      throw error;
    }
    const reader = new MessageReader(onMessage);
    const body = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await body.read();
      if (done) return said;
      said = true;
      window.clearTimeout(silence);
      silence = window.setTimeout(() => abort.abort(), SILENCE_MILLIS);
      reader.push(value);
    }
  } finally {
    window.clearTimeout(silence);
  }
}

function broke(reason: string): void {
  const before = connection.get();
  connection.set({
    ...before,
    state: 'broken',
    brokenSinceMillis: before.brokenSinceMillis ?? Date.now(),
    reason,
  });
}

async function follow(mine: AbortController): Promise<void> {
  let pauseMillis = 1000;
  while (!mine.signal.aborted) {
    const attempt = new AbortController();
    mine.signal.addEventListener('abort', () => attempt.abort(), { once: true });
    let said = false;
    try {
      said = await readOnce(attempt);
      if (!mine.signal.aborted) broke('the array ended the stream');
    } catch (thrown) {
      said = connection.get().state === 'connected';
      if (!mine.signal.aborted) broke(thrown instanceof Error ? thrown.message : String(thrown));
    }
    if (said) pauseMillis = 1000;
    await new Promise((resolve) => setTimeout(resolve, pauseMillis));
    pauseMillis = Math.min(pauseMillis * 2, PAUSE_MILLIS_MAX);
  }
}

function onSession(): void {
  const isIn = session.get().state === 'in';
  if (isIn && !stop) {
    stop = new AbortController();
    void follow(stop);
  } else if (!isIn && stop) {
    stop.abort();
    stop = undefined;
    connection.set({ state: 'connecting' });
  }
}

/// Follows the stream for as long as there is a session.
export function startLive(): void {
  session.subscribe(onSession);
  onSession();
}
