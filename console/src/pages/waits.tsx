// Is it the storage? What the sessions of a database wait for, looked at for some seconds when somebody asks.
import { useState } from 'react';
import { api } from '../api/client';
import { asError, type ApiError } from '../api/error';
import type { DatabaseWaits, WaitCause } from '../api/types';
import { denied } from '../state/rights';
import { ActionButton, Failure, Panel } from '../ui/basics';

const SECONDS = 5;
const CAUSES: Record<WaitCause, string> = {
  storage: 'the storage',
  processor: 'the processor',
  locks: 'locks of other transactions',
  server: 'the server itself',
  network: 'clients or other servers',
};

/// How many sessions were at each cause, the largest first.
export function causes({ waits }: DatabaseWaits): [WaitCause, number][] {
  const sums = new Map<WaitCause, number>();
  for (const { cause, session_count } of waits) sums.set(cause, (sums.get(cause) ?? 0) + session_count);
  return [...sums].sort(([, one], [, other]) => other - one);
}

export function Waits({ name, isRunning }: { name: string; isRunning: boolean }) {
  const [found, setFound] = useState<DatabaseWaits | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isLooking, setLooking] = useState(false);
  const look = async () => {
    setLooking(true);
    setError(null);
    try {
      const options = { path: { database: name }, query: { seconds: SECONDS } };
      setFound(await api.get('/v1/databases/{database}/waits', options));
    } catch (thrown) {
      setError(asError(thrown));
    }
    setLooking(false);
  };
  const still = isRunning ? null : 'Its server does not run: start it first.';
  return (
    <Panel
      title="What its sessions wait for"
      note={`Its server is asked for ${SECONDS} seconds what each session at work waits for.`}
      aside={
        <ActionButton
          refusal={denied('database_waits') ?? still ?? (isLooking && 'It is being asked.')}
          onPress={() => void look()}
        >
          {isLooking ? 'Looks…' : found ? 'Look again' : 'Look'}
        </ActionButton>
      }
    >
      {error && <Failure error={error} />}
      <div role="status">{found && <Found of={found} />}</div>
    </Panel>
  );
}

function Found({ of }: { of: DatabaseWaits }) {
  if (of.waits.length === 0) return <p>No session was at work.</p>;
  const share = (count: number) => `${Math.round((100 * count) / of.session_count)} %`;
  return (
    <>
      <p>
        {of.session_count.toFixed(2)} sessions at work at a time:{' '}
        {causes(of)
          .map(([cause, count]) => `${share(count)} ${CAUSES[cause]}`)
          .join(', ')}
        .
      </p>
      <table className="histogram wide-names">
        <thead>
          <tr>
            <th scope="col">waits for</th>
            <th scope="col">sessions</th>
            <th scope="col">that is</th>
          </tr>
        </thead>
        <tbody>
          {of.waits.map(({ event, cause, session_count }) => (
            <tr key={event}>
              <th scope="row">{event}</th>
              <td>
                <span className="bar" style={{ width: `${(60 * session_count) / of.session_count}%`, background: 'var(--read)' }} />
                {session_count.toFixed(2)}
              </td>
              <td>{CAUSES[cause]}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
