// What happened, the newest first, as it happens.
import { useMemo, useState } from 'react';
import { heard } from '../api/live';
import { useGet } from '../api/resource';
import type { Event } from '../api/types';
import { linkOf, mergeEvents } from '../state/alerts';
import { Link, useQuery } from '../state/router';
import { useStore } from '../state/store';
import { Badge, Button, Empty, Failure, Loading, Page, Panel, Time, Words, type Tone } from '../ui/basics';
import { Choice, Search } from '../ui/fields';
import { plural } from '../ui/format';

const SHOWN_AT_FIRST = 200;
const TONES: Record<Event['level'], Tone> = { info: 'plain', warning: 'warn', error: 'bad' };
type Level = 'all' | 'warning' | 'error';

export function Events() {
  const { data: listed, error } = useGet('/v1/events', undefined, 30);
  const live = useStore(heard);
  const [search, setSearch] = useQuery('search');
  const [level, setLevel] = useQuery('level');
  const [isAll, setAll] = useState(false);
  const events = useMemo(() => mergeEvents(listed, live), [listed, live]);
  const wanted = search.toLowerCase();
  const shown = events.filter((event) => {
    if (level === 'error' && event.level !== 'error') return false;
    if (level === 'warning' && event.level === 'info') return false;
    return event.object.toLowerCase().includes(wanted) || event.message.toLowerCase().includes(wanted);
  });
  return (
    <Page title="Events" lead="Since the array started, the newest first. They appear as they happen.">
      {error && <Failure error={error} />}
      {!listed && !error && <Loading what="Asking for the events" />}
      <div className="toolbar">
        <Search label="Search object or message" value={search} onChange={setSearch} />
        <Choice<Level>
          label="Level"
          isCompact
          value={(level as Level) || 'all'}
          onChange={(one) => setLevel(one === 'all' ? '' : one)}
          options={[
            { id: 'all', label: 'All levels' },
            { id: 'warning', label: 'Warnings and errors' },
            { id: 'error', label: 'Errors' },
          ]}
        />
        <span className="note" role="status">
          {plural(shown.length, 'event')}
        </span>
      </div>
      {listed && shown.length === 0 && (
        <Empty title={events.length === 0 ? 'Nothing happened yet' : 'No event like that'} command="ashlar events" />
      )}
      {shown.length > 0 && (
        <Panel className="flush">
          <ol className="events">
            {shown.slice(0, isAll ? undefined : SHOWN_AT_FIRST).map((event) => (
              <Line key={event.sequence} event={event} onObject={setSearch} />
            ))}
          </ol>
          {shown.length > SHOWN_AT_FIRST && !isAll && (
            <Button tone="quiet" onPress={() => setAll(true)}>
              Show all {shown.length}
            </Button>
          )}
        </Panel>
      )}
    </Page>
  );
}

function Line({ event, onObject }: { event: Event; onObject: (object: string) => void }) {
  const link = linkOf(event.object);
  return (
    <li className={`event level-${event.level}`}>
      <span className="event-time">
        <Time millis={event.unix_millis} as="clock" />
      </span>
      <span className="event-level">
        <Badge tone={TONES[event.level]}>{event.level}</Badge>
      </span>
      <span className="event-object">
        {link ? <Link to={link}>{event.object}</Link> : event.object}
        <Button tone="quiet" icon="search" label={`Only events of ${event.object}`} onPress={() => onObject(event.object)} />
      </span>
      <span className="event-message">
        <Words>{event.message}</Words>
      </span>
    </li>
  );
}
