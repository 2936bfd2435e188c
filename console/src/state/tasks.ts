// What this page asked the array to do: running, done or refused, until a person has seen it.
import type { ReactNode } from 'react';
import { asError, type ApiError } from '../api/error';
import { invalidate } from '../api/resource';
import { Store } from './store';

export interface Task {
  id: number;
  /// As in `clone prod to dev`.
  title: string;
  state: 'running' | 'done' | 'failed';
  startedMillis: number;
  error?: ApiError;
  result?: ReactNode;
  /// A dialog shows it; the tray need not.
  isWatched: boolean;
}

export const tasks = new Store<Task[]>([]);
const DONE_MILLIS = 8_000;
let next = 1;

function change(id: number, part: Partial<Task>): void {
  tasks.set(tasks.get().map((task) => (task.id === id ? { ...task, ...part } : task)));
}

export function dismiss(id: number): void {
  tasks.set(tasks.get().filter((task) => task.id !== id));
}

/// A dialog was closed while its task ran: the tray goes on showing it.
export function unwatch(id: number): void {
  change(id, { isWatched: false });
}

export interface Running {
  id: number;
  done: Promise<ApiError | null>;
}

/// Runs an action; what the page shows is fetched anew afterwards. A result stays until it is dismissed.
export function runTask(title: string, work: () => Promise<ReactNode | void>, isWatched = false): Running {
  const id = next;
  next += 1;
  tasks.set([...tasks.get(), { id, title, state: 'running', startedMillis: Date.now(), isWatched }]);
  const finish = async (): Promise<ApiError | null> => {
    try {
      const result = (await work()) ?? undefined;
      change(id, { state: 'done', result, isWatched: false });
      if (result === undefined) window.setTimeout(() => dismiss(id), DONE_MILLIS);
      return null;
    } catch (thrown) {
      const error = asError(thrown);
      change(id, { state: 'failed', error });
      return error;
    } finally {
      invalidate();
    }
  };
  return { id, done: finish() };
}
