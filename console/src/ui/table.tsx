// A table that sorts, and that keeps only the rows in sight in the page: 10,000 rows cost what 40 do. It is a plain
// HTML table, so that screen readers read it as one; `aria-rowcount` and `aria-rowindex` tell of the rows not there.
import { useLayoutEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { Icon } from './icons';
import { plural } from './format';

export interface Column<R> {
  id: string;
  title: string;
  render: (row: R) => ReactNode;
  /// What it is sorted by; absent: it is not.
  sort?: (row: R) => number | string;
  isNumber?: boolean;
  /// A width as CSS has it; absent: what is left.
  width?: string;
  /// Left out where there is no room: 1 on telephones, 2 also on small windows, 3 also on common ones.
  hide?: 1 | 2 | 3;
}

export interface Order {
  id: string;
  isDown: boolean;
}

interface TableProps<R> {
  label: string;
  rows: readonly R[];
  columns: Column<R>[];
  rowKey: (row: R) => string;
  order?: Order;
  /// Sorts anew when it changes, for columns of live values.
  tick?: unknown;
  selected?: ReadonlySet<string>;
  onSelect?: (selected: Set<string>) => void;
  isMuted?: (row: R) => boolean;
  /// Shows so many rows at first.
  atFirst?: number;
}

/// Below this all rows are in the page, as high as their content is.
const WINDOW_FROM_ROWS = 120;
const OVERSCAN_ROWS = 8;
const collator = new Intl.Collator('en', { numeric: true });

function compare(left: number | string, right: number | string): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  return collator.compare(String(left), String(right));
}

function sorted<R>(rows: readonly R[], column: Column<R> | undefined, isDown: boolean): readonly R[] {
  if (!column?.sort) return rows;
  const keyed = rows.map((row) => ({ row, key: column.sort!(row) }));
  keyed.sort((left, right) => (isDown ? -1 : 1) * compare(left.key, right.key));
  return keyed.map(({ row }) => row);
}

/// Which rows are in sight of the window, by the place of the table's body in it.
function useSight(rowCount: number, isWindowed: boolean) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [height, setHeight] = useState(44);
  const [sight, setSight] = useState({ first: 0, end: 40 });
  useLayoutEffect(() => {
    if (!isWindowed) return;
    let frame = 0;
    const look = () => {
      frame = 0;
      const element = body.current;
      if (!element) return;
      const row = element.querySelector('tr[aria-rowindex]');
      const high = row?.getBoundingClientRect().height || height;
      if (Math.abs(high - height) > 0.5) setHeight(high);
      const above = -element.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(above / high) - OVERSCAN_ROWS);
      const end = Math.min(rowCount, Math.ceil((above + innerHeight) / high) + OVERSCAN_ROWS);
      setSight((now) => (now.first === first && now.end === end ? now : { first, end }));
    };
    const soon = () => {
      frame ||= requestAnimationFrame(look);
    };
    look();
    addEventListener('scroll', soon, { passive: true });
    addEventListener('resize', soon);
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener('scroll', soon);
      removeEventListener('resize', soon);
    };
  }, [rowCount, isWindowed, height]);
  return isWindowed
    ? { body, height, first: Math.min(sight.first, rowCount), end: Math.min(sight.end, rowCount) }
    : { body, height, first: 0, end: rowCount };
}

export function DataTable<R>(props: TableProps<R>) {
  const { label, rows, columns, rowKey, selected, onSelect, isMuted, tick } = props;
  const [order, setOrder] = useState<Order>(props.order ?? { id: '', isDown: false });
  const column = columns.find(({ id }) => id === order.id);
  // eslint-disable-next-line -- the sort functions of one column id do not change what they mean
  const all = useMemo(() => sorted(rows, column, order.isDown), [rows, order.id, order.isDown, tick]);
  const [isWhole, setWhole] = useState(false);
  const cut = !isWhole && props.atFirst && rows.length > props.atFirst ? props.atFirst : rows.length;
  const isWindowed = cut > WINDOW_FROM_ROWS;
  const { body, height, first, end } = useSight(cut, isWindowed);
  const span = columns.length + (onSelect ? 1 : 0);
  const toggle = (key: string) => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect?.(next);
  };
  const toggleAll = () => onSelect?.(selected?.size ? new Set() : new Set(all.map(rowKey)));
  return (
    <div className={isWindowed ? 'table-box windowed' : 'table-box'}>
      <table aria-label={`${label}, ${plural(rows.length, 'row')}`} aria-rowcount={rows.length + 1}>
        <Heads {...{ columns, order, setOrder }}>
          {onSelect && (
            <th className="check" scope="col">
              <Check label="Select all" isOn={Boolean(selected?.size)} onChange={toggleAll} />
            </th>
          )}
        </Heads>
        <tbody ref={body}>
          {first > 0 && <Gap span={span} pixels={first * height} />}
          {all.slice(first, end).map((row, index) => {
            const key = rowKey(row);
            const isOn = selected?.has(key) ?? false;
            return (
              <tr
                key={key}
                aria-rowindex={first + index + 2}
                className={`${isMuted?.(row) ? 'muted-row' : ''} ${isOn ? 'selected' : ''}`}
              >
                {onSelect && (
                  <td className="check">
                    <Check label={`Select ${key}`} isOn={isOn} onChange={() => toggle(key)} />
                  </td>
                )}
                {columns.map((one) => (
                  <td key={one.id} className={classOf(one)}>
                    {one.render(row)}
                  </td>
                ))}
              </tr>
            );
          })}
          {end < cut && <Gap span={span} pixels={(cut - end) * height} />}
        </tbody>
      </table>
      {cut < rows.length && (
        <button type="button" className="button quiet" onClick={() => setWhole(true)}>
          Show all {rows.length}
        </button>
      )}
    </div>
  );
}

function classOf<R>(column: Column<R>): string {
  return `${column.isNumber ? 'number' : ''} ${column.hide ? `hide-${column.hide}` : ''} c-${column.id}`;
}

interface HeadsProps<R> {
  columns: Column<R>[];
  order: Order;
  setOrder: (order: Order) => void;
  children?: ReactNode;
}

function Heads<R>({ columns, order, setOrder, children }: HeadsProps<R>) {
  return (
    <thead>
      <tr aria-rowindex={1}>
        {children}
        {columns.map((column) => {
          const isBy = order.id === column.id;
          const direction = isBy ? (order.isDown ? 'descending' : 'ascending') : undefined;
          const isDown = isBy ? !order.isDown : Boolean(column.isNumber);
          return (
            <th
              key={column.id}
              scope="col"
              className={classOf(column)}
              style={{ width: column.width }}
              aria-sort={column.sort ? (direction ?? 'none') : undefined}
            >
              {column.sort ? (
                <button type="button" onClick={() => setOrder({ id: column.id, isDown })}>
                  {column.title}
                  <span className={`order ${direction ?? ''}`}>
                    <Icon name="down" />
                  </span>
                </button>
              ) : column.title ? (
                column.title
              ) : (
                <span className="hidden-text">Actions</span>
              )}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function Gap({ span, pixels }: { span: number; pixels: number }) {
  return (
    <tr aria-hidden="true" className="gap">
      <td colSpan={span} style={{ height: `${pixels}px` }} />
    </tr>
  );
}

function Check({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: () => void }) {
  return <input type="checkbox" aria-label={label} checked={isOn} onChange={onChange} />;
}
