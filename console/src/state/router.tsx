// Addresses below /console/ without a hash: the browser's own history, and links that do not reload the page.
import type { AnchorHTMLAttributes, MouseEvent, ReactNode } from 'react';
import { Store, useStore } from './store';

const BASE = '/console';
const here = () => (location.pathname.replace(/^\/console(?=\/|$)/, '')) || '/';

export const path = new Store<string>(here());
const search = new Store<string>(location.search);

function changed(): void {
  search.set(location.search);
  path.set(here());
}

window.addEventListener('popstate', changed);

export function navigate(to: string): void {
  history.pushState(null, '', BASE + to);
  changed();
  window.scrollTo(0, 0);
}

/// A value of the address behind `?`, which a reload and a copied address keep.
export function useQuery(name: string): [string, (value: string) => void] {
  const query = new URLSearchParams(useStore(search));
  const change = (value: string) => {
    const next = new URLSearchParams(location.search);
    if (value) next.set(name, value);
    else next.delete(name);
    const text = next.toString();
    history.replaceState(null, '', location.pathname + (text ? `?${text}` : ''));
    search.set(location.search);
  };
  return [query.get(name) ?? '', change];
}

export function usePath(): string[] {
  return useStore(path)
    .split('/')
    .filter((part) => part !== '')
    .map((part) => decodeURIComponent(part));
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string; children: ReactNode };

export function Link({ to, children, onClick, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a {...rest} href={BASE + to} onClick={follow}>
      {children}
    </a>
  );
}

export const to = {
  database: (name: string) => `/databases/${encodeURIComponent(name)}`,
  volume: (name: string) => `/volumes/${encodeURIComponent(name)}`,
};
