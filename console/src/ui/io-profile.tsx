// What the requests of a volume look like: how long, of which kinds, in which order.
import { useState } from 'react';
import { api } from '../api/client';
import { asError, type ApiError } from '../api/error';
import { useGet } from '../api/resource';
import type { IoProfile as Profile, RequestProfile } from '../api/types';
import { Button, Failure, Loading, Panel } from './basics';
import { bytes, count, whole } from './format';
import { kindsOf, percent, told } from './shares';

const SECONDS = 10;

export function IoProfile({ volume }: { volume: string }) {
  const all = useGet('/v1/volumes/{volume}/profile', { path: { volume } }, 10);
  const [counted, setCounted] = useState<Profile | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [isCounting, setCounting] = useState(false);
  const shown = counted ?? all.data;
  const failed = error ?? all.error;
  const countNow = async () => {
    setCounting(true);
    setError(null);
    try {
      const options = { path: { volume }, query: { seconds: SECONDS } };
      setCounted(await api.get('/v1/volumes/{volume}/profile', options));
    } catch (thrown) {
      setError(asError(thrown));
    }
    setCounting(false);
  };
  return (
    <Panel
      title="What its requests look like"
      note={counted ? `Counted for ${SECONDS} seconds.` : 'Counted since the array started.'}
      aside={
        <div className="actions">
          {counted && <Button onPress={() => setCounted(null)}>All since the start</Button>}
          <Button onPress={() => void countNow()} isDisabled={isCounting}>
            {isCounting ? `Counts for ${SECONDS} s…` : `Count for ${SECONDS} s`}
          </Button>
        </div>
      }
    >
      {failed && <Failure error={failed} />}
      {!shown && !failed && <Loading what="Asking for its requests" />}
      {shown && <p role="status">{told(shown)}</p>}
      {shown && <Kinds of={shown} />}
      {shown && <Sizes of={shown} />}
    </Panel>
  );
}

function Bar({ share, colour }: { share: number; colour: string }) {
  return <span className="bar" style={{ width: `${60 * share}%`, background: `var(${colour})` }} />;
}

function Kinds({ of }: { of: Profile }) {
  const kinds = kindsOf(of);
  const all = kinds.reduce((sum, kind) => sum + kind.count, 0);
  if (all === 0) return null;
  return (
    <table className="histogram wide-names">
      <caption className="chart-title">Kinds</caption>
      <thead>
        <tr>
          <th scope="col">kind</th>
          <th scope="col">share</th>
          <th scope="col">sequential</th>
        </tr>
      </thead>
      <tbody>
        {kinds.map((kind) => (
          <tr key={kind.name}>
            <th scope="row">{kind.name}</th>
            <td title={whole(kind.count)}>
              <Bar share={kind.count / all} colour={kind.name === 'reads' ? '--read' : '--write'} />
              {percent(kind.count, all)}
            </td>
            <td>{kind.shape ? percent(kind.shape.sequential_count, kind.count) : '–'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const countOf = (shape: RequestProfile, end: number): number =>
  shape.sizes.find(({ up_to_bytes }) => up_to_bytes === end)?.count ?? 0;

function Sizes({ of: { reads, writes } }: { of: Profile }) {
  const ends = [...new Set([...reads.sizes, ...writes.sizes].map(({ up_to_bytes }) => up_to_bytes))];
  if (ends.length === 0) return null;
  const most = Math.max(...[...reads.sizes, ...writes.sizes].map((one) => one.count));
  const cell = (shape: RequestProfile, end: number, colour: string) => {
    const found = countOf(shape, end);
    return (
      <td title={whole(found)}>
        <Bar share={found / most} colour={colour} />
        {found > 0 && `${count(found)}, ${percent(found, shape.count)}`}
      </td>
    );
  };
  return (
    <table className="histogram">
      <caption className="chart-title">Lengths</caption>
      <thead>
        <tr>
          <th scope="col">up to</th>
          <th scope="col">reads</th>
          <th scope="col">writes</th>
        </tr>
      </thead>
      <tbody>
        {ends
          .sort((left, right) => left - right)
          .map((end) => (
            <tr key={end}>
              <th scope="row">{bytes(end)}</th>
              {cell(reads, end, '--read')}
              {cell(writes, end, '--write')}
            </tr>
          ))}
      </tbody>
    </table>
  );
}
