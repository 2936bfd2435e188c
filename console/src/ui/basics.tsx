// Small pieces that every page is made of.
import { useEffect, useState, type ReactNode } from 'react';
import { Button as AriaButton, ProgressBar, type ButtonProps } from 'react-aria-components';
import type { ApiError } from '../api/error';
import { useNow } from '../state/clock';
import { denied, refused, type Operation } from '../state/rights';
import { useStore } from '../state/store';
import { ago, bytes, exactBytes, fullTime, shortTime } from './format';
import { Icon, type IconName } from './icons';

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'busy';

interface PageProps {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  above?: ReactNode;
  children: ReactNode;
}

export function Page({ title, lead, actions, above, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Ashlar`;
  }, [title]);
  return (
    <>
      <header className="page-head">
        <div>
          {above && <div className="above">{above}</div>}
          <h1>{title}</h1>
          {lead && <div className="lead">{lead}</div>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

interface PanelProps {
  title?: ReactNode;
  note?: ReactNode;
  aside?: ReactNode;
  className?: string;
  children: ReactNode;
}

export function Panel({ title, note, aside, className, children }: PanelProps) {
  return (
    <section className={`panel ${className ?? ''}`}>
      {(title || aside) && (
        <header className="panel-head">
          <div>
            {title && <h2>{title}</h2>}
            {note && <p className="note">{note}</p>}
          </div>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

type PressProps = ButtonProps & { tone?: 'primary' | 'danger' | 'quiet'; icon?: IconName; label?: string };

export function Button({ tone, icon, label, children, className, ...rest }: PressProps) {
  const look = `button ${tone ?? ''} ${children ? '' : 'only-icon'} ${(className as string) ?? ''}`;
  return (
    <AriaButton {...rest} className={look} aria-label={label ?? rest['aria-label']}>
      {icon && <Icon name={icon} />}
      {children as ReactNode}
    </AriaButton>
  );
}

interface ActionButtonProps {
  /// Why it may not be used now; the button stays in its place and says so.
  refusal?: string | false | null;
  /// The operation that it takes: without the right to it the button is refused.
  needs?: Operation;
  onPress: () => void;
  tone?: 'primary' | 'danger' | 'quiet';
  icon?: IconName;
  children: ReactNode;
}

/// A button that, where it may not be used, can still be reached and tells why.
export function ActionButton({ needs, refusal: other, onPress, tone, icon, children }: ActionButtonProps) {
  useStore(refused);
  const refusal = denied(needs) ?? other;
  const [isTold, setTold] = useState(false);
  const [id] = useState(() => `why-${Math.random().toString(36).slice(2)}`);
  if (!refusal) {
    return (
      <Button tone={tone} icon={icon} onPress={onPress}>
        {children}
      </Button>
    );
  }
  return (
    <span className="refused">
      <button
        type="button"
        className="button"
        aria-disabled="true"
        aria-describedby={id}
        title={refusal}
        onClick={() => setTold(!isTold)}
      >
        {icon && <Icon name={icon} />}
        {children}
      </button>
      <span id={id} role="note" className={isTold ? 'why' : 'why hidden-text'}>
        {refusal}
      </span>
    </span>
  );
}

const SHAPES: Record<Tone, string> = { plain: '○', good: '●', warn: '▲', bad: '■', busy: '◐' };

/// A state: a word with a shape and a colour, so that none of them is needed alone.
export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span className={`badge tone-${tone}`}>
      <span aria-hidden="true">{SHAPES[tone]}</span> {children}
    </span>
  );
}

export function Bytes({ of }: { of: number | null | undefined }) {
  if (of === null || of === undefined) return <span title="It is being counted.">–</span>;
  return <span title={exactBytes(of)}>{bytes(of)}</span>;
}

/// A time: when it was, or how long ago, with the whole date as title.
export function Time({ seconds, millis, as = 'ago' }: { seconds?: number | null; millis?: number; as?: 'ago' | 'clock' }) {
  const now = useNow();
  const at = millis ?? (seconds === null || seconds === undefined ? null : seconds * 1000);
  if (at === null) return <>–</>;
  return (
    <time dateTime={new Date(at).toISOString()} title={fullTime(at)}>
      {as === 'ago' ? ago(at, Math.max(now, Date.now() - 1000)) : shortTime(at)}
    </time>
  );
}

/// Text in which commands and settings stand between backticks, as the array writes them.
export function Words({ children }: { children: string }) {
  const parts = children.split('`');
  return <>{parts.map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

/// What went wrong, and what to do about it.
export function Failure({ error, title }: { error: ApiError; title?: string }) {
  return (
    <div className="notice tone-bad" role="alert">
      <Icon name="error" />
      <div>
        {title && <strong>{title}. </strong>}
        <Words>{error.message}</Words>
        {error.action && (
          <div className="todo">
            What to do: <Words>{error.action}</Words>
          </div>
        )}
      </div>
    </div>
  );
}

export function Notice({ tone, children }: { tone: Tone; children: ReactNode }) {
  const name = tone === 'bad' ? 'error' : tone === 'warn' ? 'warning' : tone === 'good' ? 'check' : 'info';
  return (
    <div className={`notice tone-${tone}`}>
      <Icon name={name} />
      <div>{children}</div>
    </div>
  );
}

/// Nothing is here yet: what it would be, and the command that makes one.
export function Empty({ title, children, command }: { title: string; children?: ReactNode; command?: string }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children && <div>{children}</div>}
      {command && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={() => Promise.resolve(text)} label="Copy the command" />
    </div>
  );
}

export function Copy({ text, label }: { text: () => Promise<string>; label: string }) {
  const [state, setState] = useState<'ready' | 'copied' | 'failed'>('ready');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await text());
      setState('copied');
    } catch {
      setState('failed');
    }
    window.setTimeout(() => setState('ready'), 2500);
  };
  const said = state === 'copied' ? 'Copied' : state === 'failed' ? 'Not copied' : '';
  return (
    <span className="copy">
      <Button tone="quiet" icon={state === 'copied' ? 'check' : 'copy'} label={label} onPress={() => void copy()} />
      <span role="status" className={said ? 'said' : 'hidden-text'}>
        {said}
      </span>
    </span>
  );
}

export function Facts({ of }: { of: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

interface ProgressProps {
  label: string;
  /// 0 to 1; absent: nobody knows how far it is.
  share?: number;
  text?: ReactNode;
}

export function Progress({ label, share, text }: ProgressProps) {
  const percent = share === undefined ? undefined : Math.min(100, Math.max(0, share * 100));
  return (
    <ProgressBar className="progress" aria-label={label} value={percent ?? 0} isIndeterminate={share === undefined}>
      <div className="progress-text">
        <span>{label}</span>
        <span>{text ?? (percent === undefined ? '' : `${Math.floor(percent)} %`)}</span>
      </div>
      <div className="track">
        <div className={share === undefined ? 'fill unknown' : 'fill'} style={{ width: `${percent ?? 30}%` }} />
      </div>
    </ProgressBar>
  );
}

export function Loading({ what }: { what: string }) {
  return (
    <div className="loading" role="status">
      <span className="spinner" aria-hidden="true" /> {what}
    </div>
  );
}
