// The console's own icons: 20 by 20, drawn with the colour of the text.
import type { ReactNode } from 'react';

const PATHS = {
  dashboard: <path d="M3 11h4v6H3zM8 3h4v14H8zM13 7h4v10h-4z" />,
  databases: <path d="M10 3c4 0 6.5 1 6.5 2.4v9.200C16.500 16 14 17 10 17s-6.500-1-6.500-2.400V5.400C3.500 4 6 3 10 3zm-6.500 4.700c1 1.200 3.500 1.900 6.500 1.900s5.500-.7 6.500-1.900M3.500 11.600c1 1.200 3.500 1.900 6.500 1.900s5.500-.7 6.500-1.900" />,
  volumes: <path d="M10 2.500 17 6v8l-7 3.500L3 14V6zM3 6l7 3.500L17 6M10 9.500v8" />,
  snapshots: <path d="M6 4h8l1.500 2H18v10H2V6h2.500zM10 14a3 3 0 1 0 0-6 3 3 0 0 0 0 6z" />,
  drives: <path d="M3 3.500h14v5H3zM3 11.500h14v5H3zM13.500 6h1M13.500 14h1M5.500 6h4M5.500 14h4" />,
  events: <path d="M4 4h12M4 8h12M4 12h8M4 16h5" />,
  jobs: <path d="M10 17.500a7.500 7.500 0 1 0 0-15 7.500 7.500 0 0 0 0 15zM10 6v4.500l3 2" />,
  lab: <path d="M7 3h6M8 3v5L3.500 16.500h13L12 8V3M6 12.500h8" />,
  hosts: <path d="M3 4h14v5H3zM3 11h14v5H3zM6 6.5h.01M6 13.5h.01M10 6.5h4M10 13.5h4" />,
  clients: <path d="M6 3v5M14 3v5M4 8h12v2a6 6 0 0 1-12 0zM10 16v2" />,
  settings: <path d="M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4" />,
  more: <path d="M4 10h.1M10 10h.1M16 10h.1" strokeWidth="2.6" strokeLinecap="round" />,
  down: <path d="m5 8 5 5 5-5" />,
  right: <path d="m8 5 5 5-5 5" />,
  close: <path d="m5 5 10 10M15 5 5 15" />,
  copy: <path d="M7 7h9v10H7zM4 13V3h9" />,
  check: <path d="m4 10.500 4 4 8-9" />,
  search: <path d="M9 14.500a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM13 13l4.500 4.500" />,
  warning: <path d="M10 3 18 17H2zM10 8v4.500M10 14.300v.4" />,
  error: <path d="M7 2.500h6L17.500 7v6L13 17.500H7L2.500 13V7zM10 6v5M10 13.400v.4" />,
  info: <path d="M10 17.500a7.500 7.500 0 1 0 0-15 7.500 7.500 0 0 0 0 15zM10 9v5M10 6.300v.4" />,
  refresh: <path d="M16 5v4h-4M15.500 9A6 6 0 1 0 16 12" />,
  lock: <path d="M5 9h10v8H5zM7 9V6a3 3 0 0 1 6 0v3" />,
  plus: <path d="M10 4v12M4 10h12" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {PATHS[name]}
    </svg>
  );
}
