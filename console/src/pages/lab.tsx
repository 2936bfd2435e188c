// Results of the lab: the papers' experiments, what was found here, and whether it holds.
import { request } from '../api/client';
import { useGet } from '../api/resource';
import type { LabPart, LabResult } from '../api/types';
import { Link, useQuery } from '../state/router';
import { runTask } from '../state/tasks';
import { Badge, Button, Empty, Failure, Loading, Page, Panel, Time, type Tone } from '../ui/basics';
import { figure } from '../ui/format';
import { saveFile } from '../ui/save';

const TONES: Record<string, Tone> = { passed: 'good', failed: 'bad', 'not-valid': 'warn', 'cannot-tell': 'warn' };
const WORDS: Record<string, string> = { 'not-valid': 'no valid result', 'cannot-tell': 'cannot be told' };

function Verdict({ of }: { of: string }) {
  return <Badge tone={TONES[of] ?? 'plain'}>{WORDS[of] ?? of}</Badge>;
}

export function LabResults() {
  const { data: results, error } = useGet('/v1/lab-results', undefined, 60);
  return (
    <Page title="Lab" lead="Experiments of published papers, rerun here, each with a verdict.">
      {error && <Failure error={error} />}
      {!results && !error && <Loading what="Asking for the results" />}
      {results?.length === 0 && (
        <Empty title="No results to show" command="ashlar lab run emc -s s --target ashlar:main -o /srv/lab/emc">
          The setting lab_results names the directory in which they lie, here /srv/lab.
        </Empty>
      )}
      {results?.map((result) => (
        <Panel
          key={result.name}
          title={<Link to={`/lab/${result.name}`}>{result.title ?? `All experiments of ${result.experiment}`}</Link>}
          note={<Subtitle of={result} />}
          aside={<Verdict of={result.verdict} />}
        >
          {result.answer && <p>{result.answer}</p>}
          {result.parts && <p>{tally(result.parts)}</p>}
        </Panel>
      ))}
    </Page>
  );
}

function tally(parts: LabPart[]): string {
  const of = (verdict: string) => parts.filter((part) => part.verdict === verdict).length;
  const all = [`${of('passed')} of ${parts.length} passed all checks`];
  if (of('failed') > 0) all.push(`${of('failed')} failed`);
  if (of('not-valid') > 0) all.push(`${of('not-valid')} without a valid result`);
  return `${all.join(', ')}.`;
}

function Subtitle({ of }: { of: LabResult }) {
  return (
    <>
      {of.experiment}
      {of.preset && `, preset ${of.preset}`}
      {of.targets && `, on ${of.targets.join(' and ')}`}
      {of.begun_unix_seconds && (
        <>
          , <Time seconds={of.begun_unix_seconds} />
        </>
      )}
    </>
  );
}

export function LabResultPage({ name }: { name: string }) {
  const [part] = useQuery('part');
  const query = part === '' ? undefined : { part };
  const { data: result, error } = useGet('/v1/lab-results/{result}', { path: { result: name }, query }, 60);
  const above = part === '' ? <Link to="/lab">Lab</Link> : <Link to={`/lab/${name}`}>{name}</Link>;
  if (!result) {
    return (
      <Page title={part || name} above={above}>
        {error ? <Failure error={error} /> : <Loading what={`Asking for ${part || name}`} />}
      </Page>
    );
  }
  const address = `/v1/lab-results/${encodeURIComponent(name)}/report${part === '' ? '' : `?part=${encodeURIComponent(part)}`}`;
  return (
    <Page
      title={result.title ?? `All experiments of ${result.experiment}`}
      above={above}
      lead={<Subtitle of={result} />}
      actions={
        <Button onPress={() => runTask(`save the report of ${part || name}`, () => save(address, `${part || name}.html`))}>
          Save the report
        </Button>
      }
    >
      {result.answer && (
        <Panel title={result.question} aside={<Verdict of={result.verdict} />}>
          <p>{result.answer}</p>
          {result.complaints?.map((complaint) => (
            <p key={complaint} className="note">
              {complaint}
            </p>
          ))}
        </Panel>
      )}
      {result.parts?.map((one) => (
        <Panel
          key={one.experiment}
          title={one.name ? <Link to={`/lab/${name}?part=${one.name}`}>{one.title}</Link> : one.title}
          note={one.experiment}
          aside={<Verdict of={one.verdict} />}
        >
          <p>{one.answer}</p>
        </Panel>
      ))}
      <Metrics of={result} />
      <Checks of={result} />
    </Page>
  );
}

async function save(address: string, name: string): Promise<void> {
  saveFile(await request('GET', address), 'text/html', name);
}

/// What was published beside what was measured, as bars of one length.
function Metrics({ of }: { of: LabResult }) {
  return of.metrics?.map((metric) => {
    const values = metric.rows.flatMap(({ value }) => (value === undefined || value === null ? [] : [value]));
    const most = Math.max(metric.published ?? 0, ...values, Number.MIN_VALUE);
    const bar = (value: number, name: string) => (
      <span className="bar" style={{ width: `${(value / most) * 60}%`, background: `var(${name})` }} />
    );
    return (
      <Panel key={metric.metric} title={metric.metric} note={metric.note ? `Published: ${metric.note}` : undefined}>
        <table className="histogram wide-names">
          <thead>
            <tr>
              <th scope="col">where</th>
              <th scope="col">value</th>
            </tr>
          </thead>
          <tbody>
            {typeof metric.published === 'number' && (
              <tr>
                <th scope="row">published</th>
                <td>
                  {bar(metric.published, '--muted')} {figure(metric.published)}
                </td>
              </tr>
            )}
            {metric.rows.map(({ target, of: variant, value, interval }) => (
              <tr key={`${target} ${variant}`}>
                <th scope="row">{variant ? `${target} (${variant})` : target}</th>
                <td>
                  {typeof value === 'number' ? (
                    <>
                      {bar(value, '--read')} {figure(value)}
                      {interval && ` (${figure(interval[0])} to ${figure(interval[1])})`}
                    </>
                  ) : (
                    'not measured'
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Panel>
    );
  });
}

function Checks({ of }: { of: LabResult }) {
  if (!of.checks) return null;
  return (
    <Panel title="Checks">
      <ul className="checks">
        {of.checks.map((check) => (
          <li key={check.name + check.rule}>
            <Verdict of={check.answer} /> <strong>{check.name}</strong>
            <p className="note">{check.rule}</p>
            <p>{check.found}</p>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
