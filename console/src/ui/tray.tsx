// What was asked of the array and is under way, done or refused: in a corner until somebody has seen it.
import { useNow } from '../state/clock';
import { useStore } from '../state/store';
import { dismiss, tasks, type Task } from '../state/tasks';
import { Button, Words } from './basics';
import { duration } from './format';
import { Icon } from './icons';

export function Tray() {
  const shown = useStore(tasks).filter((task) => !task.isWatched);
  return (
    <div className="tray" role="region" aria-label="Actions" aria-live="polite">
      {shown.map((task) => (
        <Item key={task.id} task={task} />
      ))}
    </div>
  );
}

function Item({ task }: { task: Task }) {
  const tone = task.state === 'failed' ? 'bad' : task.state === 'done' ? 'good' : 'busy';
  return (
    <div className={`tray-item tone-${tone}`}>
      {task.state === 'running' ? (
        <span className="spinner" aria-hidden="true" />
      ) : (
        <Icon name={task.state === 'done' ? 'check' : 'error'} />
      )}
      <div className="tray-text">
        <strong>{task.title}</strong> <State task={task} />
        {task.error && (
          <div>
            <Words>{task.error.message}</Words>
          </div>
        )}
        {task.error?.action && (
          <div className="todo">
            What to do: <Words>{task.error.action}</Words>
          </div>
        )}
        {task.result && <div>{task.result}</div>}
      </div>
      {task.state !== 'running' && (
        <Button tone="quiet" icon="close" label="Dismiss" onPress={() => dismiss(task.id)} />
      )}
    </div>
  );
}

function State({ task }: { task: Task }) {
  const now = useNow();
  if (task.state === 'done') return <>is done</>;
  if (task.state === 'failed') return <>failed</>;
  const seconds = Math.max(0, Math.floor((now - task.startedMillis) / 1000));
  return <>runs, {duration(seconds)}</>;
}
