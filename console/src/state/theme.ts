// Light, dark, or as the system says; kept in this browser.
import { Store } from './store';

const KEY = 'ashlar.theme';
export type Theme = 'system' | 'light' | 'dark';

export const theme = new Store<Theme>((localStorage.getItem(KEY) as Theme | null) ?? 'system');
/// Counts how often colours changed: charts draw themselves anew.
export const repaint = new Store(0);

function apply(): void {
  const now = theme.get();
  if (now === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = now;
  repaint.set(repaint.get() + 1);
}

export function setTheme(to: Theme): void {
  if (to === 'system') localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, to);
  theme.set(to);
  apply();
}

export function startTheme(): void {
  apply();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
}
