// What the array is, how this page looks, and who is signed in.
import { connection } from '../api/live';
import { useGet } from '../api/resource';
import { leave } from '../api/session';
import { OwnPassword } from '../dialogs/access';
import { openDialog } from '../state/dialog';
import { nameOf, who } from '../state/rights';
import { Link } from '../state/router';
import { setTheme, theme, type Theme } from '../state/theme';
import { useStore } from '../state/store';
import { Button, Bytes, Command, Facts, Failure, Loading, Page, Panel, Time } from '../ui/basics';
import { Radios } from '../ui/fields';
import { duration } from '../ui/format';

export function Settings() {
  const { data: status, error } = useGet('/v1/status');
  const settings = useGet('/v1/settings').data;
  const live = useStore(connection);
  const chosen = useStore(theme);
  const me = useStore(who);
  return (
    <Page title="Settings">
      <Panel title="This page">
        <Radios<Theme>
          label="Colours"
          value={chosen}
          onChange={setTheme}
          options={[
            { id: 'system', label: 'As the system has them' },
            { id: 'light', label: 'Light' },
            { id: 'dark', label: 'Dark' },
          ]}
        />
        <p className="note">Kept in this browser. The session ends with this tab, or after twelve hours.</p>
      </Panel>
      <Panel title="Who may do what">
        {me && (
          <Facts
            of={[
              ['Signed in as', nameOf(me)],
              ['Role', me.role],
            ]}
          />
        )}
        <div className="actions">
          {me?.user && <Button onPress={() => openDialog(<OwnPassword />)}>Change your password…</Button>}
          <Button onPress={leave}>Sign out</Button>
        </div>
        <p>
          <Link to="/settings/access">Users and tokens</Link>
        </p>
      </Panel>
      <Panel title="The array">
        {error && <Failure error={error} />}
        {!status && !error && <Loading what="Asking for the status" />}
        {status && (
          <Facts
            of={[
              ['Version', status.version],
              [
                'Running for',
                <>
                  {duration(status.uptime_seconds)}
                  {status.started_unix_millis ? (
                    <>
                      , since <Time millis={status.started_unix_millis} as="clock" />
                    </>
                  ) : null}
                </>,
              ],
              ['Process', status.process_id],
              ['Input and output', status.io_driver],
              ['Memory', <Bytes of={status.memory_resident_bytes} />],
              ['Processor time', duration(status.cpu_micros / 1_000_000)],
              ['State directory', <code>{status.state_directory}</code>],
              ['Attached volumes', status.attachment_count],
              ['This start', <code>{live.bootId ?? '–'}</code>],
            ]}
          />
        )}
      </Panel>
      <Panel title="Change settings" note="Settings are a file of the array's machine. Some count after a reload, the rest from its next start.">
        {settings && (settings.file ? <Command text="ashlar reload" /> : <Command text="ashlar serve --config FILE" />)}
        {settings?.file && (
          <p className="note">
            This array reads <code>{settings.file}</code>.
          </p>
        )}
        <p className="note">
          <code>docs/reference/settings.md</code> lists all of them. Everything on these pages comes from the API that
          scripts use, too: <code>docs/reference/openapi.json</code>.
        </p>
      </Panel>
    </Page>
  );
}
