// The objective of latency of a database or a volume: whether it is met, and how much may still be missed.
import { useGet } from '../api/resource';
import type { Objective } from '../api/types';
import { DeleteObjective, SetObjective } from '../dialogs/objective';
import { openDialog } from '../state/dialog';
import { Badge, ActionButton, Facts, Failure, Panel, Progress } from '../ui/basics';
import { duration, micros } from '../ui/format';

const REQUESTS: Record<Objective['requests'], string> = {
  all: 'reads and writes',
  reads: 'reads',
  writes: 'writes',
};

export function ObjectivePanel({ kind, name }: { kind: Objective['kind']; name: string }) {
  const { data: all, error } = useGet('/v1/objectives', undefined, 30);
  const objective = all?.find((one) => one.kind === kind && one.name === name);
  const of = { kind, name, objective };
  return (
    <Panel
      title="Objective of latency"
      aside={
        <div className="actions">
          {objective && (
            <ActionButton needs="objective_delete" onPress={() => openDialog(<DeleteObjective {...of} />)}>
              Delete…
            </ActionButton>
          )}
          {all && (
            <ActionButton needs="objective_set" onPress={() => openDialog(<SetObjective {...of} />)}>
              {objective ? 'Change…' : 'Set…'}
            </ActionButton>
          )}
        </div>
      }
    >
      {error && <Failure title="What is shown is of before" error={error} />}
      {all && !objective && (
        <p className="note">None is set: how fast its requests should be, and for how much of the time.</p>
      )}
      {objective && <Fares objective={objective} />}
    </Panel>
  );
}

function Fares({ objective }: { objective: Objective }) {
  const { is_met_now, is_used_up, present_p99_micros: present } = objective;
  const limit = `p99 of ${REQUESTS[objective.requests]} below ${micros(objective.p99_micros)}`;
  const missed = `${duration(objective.missed_seconds)} missed of ${duration(objective.permitted_seconds)} permitted`;
  return (
    <>
      <Facts
        of={[
          ['Objective', `${limit}, ${objective.for_percent} % of ${duration(objective.over_seconds)}`],
          [
            'Now',
            <>
              <Badge tone={is_met_now ? 'good' : 'warn'}>{is_met_now ? 'met' : 'missed'}</Badge>{' '}
              {present ? micros(present) : 'no requests'}
            </>,
          ],
          ['Met', `${Number(objective.met_percent.toFixed(3))} % of the time that is known`],
          ['Known', `${duration(objective.covered_seconds)} of ${duration(objective.over_seconds)}`],
        ]}
      />
      {is_used_up ? (
        <p>
          <Badge tone="bad">used up</Badge> {missed}
        </p>
      ) : (
        <Progress label="Time that may still be missed" share={objective.left_percent / 100} text={missed} />
      )}
    </>
  );
}
